//! What people do all day, through the tunnel, on real parts: a hub whose kubelet really forwards ports, a
//! spoke behind cluster-proxy's user-server, and a home that cannot resolve the published name.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use e2e::controlplane::ocm::Joined;
use e2e::controlplane::{ClusterProxy, ControlPlane};
use e2e::sealed::{Ran, Sealed, run_with_input};
use fleet::machine::kubectl;
use serde_json::json;

use crate::parts::containers;
use crate::running::Running;

#[test]
fn everyday_kubectl_goes_through_one_background_process() {
    let Some(kubectl) = kubectl() else { return };
    let Some((hub, spoke)) = ControlPlane::start_two("hub", "spoke").unwrap() else { return };
    let joined = Joined::join(&hub, &spoke, "cluster1", "dev").unwrap();
    let Some(proxy) = ClusterProxy::install(&hub, &[("cluster1", &spoke)]).unwrap() else { return };
    proxy.publish("cluster1").unwrap();
    proxy.allow("viewer").unwrap();
    let sealed = Sealed::empty();
    sealed.write(".kube/config", &hub.kubeconfig(&hub.token("viewer")));

    let said = sealed.inventory(&["use", "cluster1"]);
    assert!(said.stderr.contains("reached through a tunnel"), "{said:?}");
    said.ok();
    assert!(sealed.tunnels().is_empty(), "it is started when it is needed");
    let ask = |args: &[&str]| sealed.kubectl(args).unwrap().ok();
    assert!(ask(&["get", "ns"]).contains("kube-system"));
    let pid = sealed.tunnel_pid();
    assert_eq!(ask(&["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"]), joined.subject());

    let watch = ["get", "configmaps", "--watch", "-o", "name"];
    let watch = Running::start(sealed.command(&kubectl).args(watch));
    let watched_from = Instant::now();
    let apply = |name: &str, size: usize| {
        let data = json!({"big": "x".repeat(size)});
        let manifest =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
        let mut command = sealed.command(&kubectl);
        command.args(["apply", "--server-side", "-f", "-"]);
        run_with_input(&mut command, manifest.to_string().as_bytes()).ok();
    };
    apply("big", 1 << 20);
    watch.until("configmap/big");
    assert_eq!(ask(&["get", "cm", "big", "-o", "jsonpath={.data.big}"]).len(), 1 << 20);

    let forty: Vec<_> = (0..40)
        .map(|_| {
            let mut command = sealed.command(&kubectl);
            command.args(["get", "ns", "-o", "name"]).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    for child in forty {
        let ran = Ran::from(child.wait_with_output().unwrap());
        assert!(ran.ok().contains("namespace/kube-system"));
    }

    // The account has no rights on Pods: the spoke's administrator looks in, by the same way.
    let admin = sealed.write("admin-token", &spoke.admin_token());
    let as_admin = || -> Command {
        let mut command = sealed.command(&kubectl);
        let config = sealed.path("as-admin");
        let entry = &sealed.entry("clusters", "cluster1@hub")["cluster"];
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": entry}],
            "users": [{"name": "u", "user": {"tokenFile": admin}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        });
        std::fs::write(&config, text.to_string()).unwrap();
        command.arg("--kubeconfig").arg(config);
        command
    };
    containers(sealed.home(), &spoke, &as_admin);

    thread::sleep(Duration::from_secs(90).saturating_sub(watched_from.elapsed()));
    apply("late", 1);
    watch.until("configmap/late");
    assert_eq!(sealed.tunnel_pid(), pid, "one process did it all");
    sealed.inventory(&["tunnel", "stop"]).ok();
    assert!(sealed.tunnels().is_empty());
}
