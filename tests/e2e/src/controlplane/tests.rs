//! The launcher itself, against what it starts.

use serde_json::Value;

use super::ocm::{AGENT, INVENTORY, Joined};
use super::{ClusterProxy, ControlPlane};

#[test]
fn a_hub_and_a_spoke_serve_what_ocm_would() {
    let Some((hub, spoke)) = ControlPlane::start_two("hub", "spoke").unwrap() else {
        return;
    };
    let joined = Joined::join(&hub, &spoke, "cluster1", "dev").unwrap();

    let whoami = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let review = serde_json::json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
    let me = |token: &str| spoke.call(token, "POST", whoami, Some(&review)).unwrap();
    let old = joined.token().unwrap();
    assert_eq!(me(&old).body["status"]["userInfo"]["username"], joined.subject());
    assert_eq!(me(&hub.admin_token()).status, 401, "a token of the hub is none of the spoke");
    assert_ne!(hub.ca_pem(), spoke.ca_pem());

    let status = |user: &str, path: &str| hub.call(&hub.token(user), "GET", path, None).unwrap().status;
    let profiles = "/apis/multicluster.x-k8s.io/v1alpha1/clusterprofiles";
    assert_eq!(status("viewer", profiles), 200);
    assert_eq!(status("viewer", &format!("/api/v1/namespaces/{INVENTORY}/secrets/cluster1-dev")), 200);
    assert_eq!(status("viewer", "/api/v1/namespaces/cluster1/secrets/dev"), 403);
    assert_eq!(status("nobody", profiles), 403);
    assert_eq!(
        joined.profile().unwrap()["status"]["accessProviders"][0]["cluster"]["server"],
        Value::from(spoke.server())
    );

    joined.recreate_account().unwrap();
    let new = joined.token().unwrap();
    assert_eq!(me(&old).status, 401);
    assert_eq!(me(&new).body["status"]["userInfo"]["username"], format!("system:serviceaccount:{AGENT}:dev"));
}

#[test]
fn what_is_dropped_leaves_no_process() {
    let Some(plane) = ControlPlane::start("brief").unwrap() else {
        return;
    };
    let Some(proxy) = ClusterProxy::install(&plane, &[("cluster1", &plane)]).unwrap() else { return };
    let pids = [plane.pids(), proxy.pids(), vec![proxy.kubelet().pid()]].concat();
    assert_eq!(pids.len(), 4);
    drop(proxy);
    drop(plane);
    for pid in pids {
        let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        assert!(rustix::process::test_kill_process(pid).is_err(), "process {pid:?} is still there");
    }
}
