//! What goes wrong at a real hub while a tunnel leads through it.

use std::thread;
use std::time::Duration;

use e2e::controlplane::ocm::{self, Joined};
use e2e::controlplane::{ClusterProxy, ControlPlane};
use e2e::sealed::Sealed;
use fleet::machine::kubectl;

use crate::running::Running;

#[test]
fn a_tunnel_outlives_its_pod_its_hub_and_its_server() {
    let Some(kubectl) = kubectl() else { return };
    let Some((hub, spoke)) = ControlPlane::start_two("hub", "spoke").unwrap() else { return };
    let _joined = Joined::join(&hub, &spoke, "cluster1", "dev").unwrap();
    let Some(mut proxy) = ClusterProxy::install(&hub, &[("cluster1", &spoke)]).unwrap() else { return };
    proxy.publish("cluster1").unwrap();
    proxy.allow("viewer").unwrap();
    let sealed = Sealed::empty();
    sealed.write(".kube/config", &hub.kubeconfig(&hub.token("viewer")));
    sealed.inventory(&["use", "cluster1"]).ok();
    let namespaces = || sealed.kubectl(&["get", "ns", "-o", "name"]).unwrap();
    namespaces().ok();
    let pid = sealed.tunnel_pid();

    // The Pod goes during a watch.
    let watch = ["get", "ns", "--watch", "-o", "name"];
    let watch = Running::start(sealed.command(&kubectl).args(watch));
    watch.until("namespace/kube-system");
    let old = proxy.pods()[0].to_owned();
    let new = proxy.add_pod().unwrap();
    proxy.delete_pod(&old).unwrap();
    namespaces().ok();
    assert_eq!(sealed.tunnel()["pod"], new.as_str());
    let log = sealed.tunnel_log();
    assert!(log.contains(&old) && log.contains(&format!("connected to Pod {new}")), "{log}");
    drop(watch);

    // The hub restarts.
    hub.stop_apiserver();
    thread::sleep(Duration::from_secs(3));
    let down = namespaces().fails(1);
    assert!(down.contains("hub context hub"), "{down}");
    hub.start_apiserver().unwrap();
    thread::sleep(Duration::from_secs(3));
    namespaces().ok();
    assert_eq!(sealed.tunnel_pid(), pid, "the same process went on");

    // The server gets a certificate that nobody was told of.
    proxy.replace_certificate().unwrap();
    sealed.inventory(&["tunnel", "stop"]).ok();
    let changed = namespaces().fails(1);
    assert!(changed.contains("certificate changed"), "{changed}");
    assert!(changed.contains("run kubectl inventory use cluster1"), "{changed}");
    assert!(!changed.contains("x509"), "kubectl itself never got to it: {changed}");
    proxy.publish("cluster1").unwrap();
    sealed.inventory(&["use", "cluster1"]).ok();
    namespaces().ok();

    // Nothing listens in the Pod.
    proxy.stop();
    sealed.inventory(&["tunnel", "stop"]).ok();
    let dead = namespaces().fails(1);
    assert!(dead.contains("no server answers behind"), "{dead}");
    proxy.restart().unwrap();
    thread::sleep(Duration::from_secs(3));
    namespaces().ok();
}

#[test]
fn each_missing_link_is_named_with_its_remedy() {
    let Some(_kubectl) = kubectl() else { return };
    let Some((hub, spoke)) = ControlPlane::start_two("hub", "spoke").unwrap() else { return };
    let _joined = Joined::join(&hub, &spoke, "cluster1", "dev").unwrap();
    let Some(mut proxy) = ClusterProxy::install(&hub, &[("cluster1", &spoke)]).unwrap() else { return };
    proxy.publish("cluster1").unwrap();
    ocm::allow_inventory(&hub, "operator").unwrap();
    let sealed = Sealed::empty();
    sealed.write(".kube/config", &hub.kubeconfig(&hub.token("operator")));
    sealed.inventory(&["use", "cluster1"]).ok();
    let fails = || {
        thread::sleep(Duration::from_secs(3));
        sealed.kubectl(&["get", "ns"]).unwrap().fails(1)
    };

    let forbidden = fails();
    assert!(forbidden.contains("cannot get resource \"services\""), "{forbidden}");
    assert!(forbidden.contains("get and create on pods/portforward"), "{forbidden}");
    assert!(sealed.tunnels().is_empty(), "one that cannot work does not stay");

    proxy.allow("operator").unwrap();
    let pod = proxy.pods()[0].to_owned();
    proxy.delete_pod(&pod).unwrap();
    proxy.add_pending_pod("pending").unwrap();
    let not_ready = fails();
    assert!(
        not_ready.contains("no Pod behind Service") && not_ready.contains("kubectl get pods"),
        "{not_ready}"
    );

    proxy.delete_service().unwrap();
    let missing = fails();
    assert!(
        missing.contains("has no Service") && missing.contains("--set enableServiceProxy=true"),
        "{missing}"
    );

    proxy.create_service().unwrap();
    proxy.add_pod().unwrap();
    thread::sleep(Duration::from_secs(3));
    sealed.kubectl(&["get", "ns"]).unwrap().ok();
}
