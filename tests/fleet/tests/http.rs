//! Drives the fleet with an HTTP client that is not ours, over h2 and HTTP/1.1.

use std::time::Duration;

use fleet::{AccountSpec, Authorization, CertShape, Fault, Fleet, Server, TokenKind};
use reqwest::{Certificate, Client, StatusCode, Version};
use serde_json::{Value, json};

const PROFILES: &str = "/apis/multicluster.x-k8s.io/v1alpha1/clusterprofiles";

fn client(server: &Server, http1: bool) -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let bundle = Certificate::from_pem_bundle(server.ca_pem().as_bytes()).unwrap();
    let builder = Client::builder().tls_certs_only(bundle).no_proxy();
    if http1 { builder.http1_only() } else { builder }.build().unwrap()
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

async fn get(server: &Server, token: &str, path: &str) -> (StatusCode, Value) {
    let response =
        client(server, false).get(format!("{}{path}", server.url())).bearer_auth(token).send().await.unwrap();
    (response.status(), serde_json::from_slice(&response.bytes().await.unwrap()).unwrap_or_default())
}

#[test]
fn both_http_versions_are_served_and_logged() {
    let fleet = Fleet::builder().spokes(1).start();
    run(async {
        for (http1, version) in [(false, Version::HTTP_2), (true, Version::HTTP_11)] {
            let request = client(fleet.hub(), http1).get(format!("{}{PROFILES}", fleet.hub().url()));
            let response = request.bearer_auth(fleet.viewer_token()).send().await.unwrap();
            assert_eq!((response.status(), response.version()), (StatusCode::OK, version));
        }
    });
    let log = fleet.hub().log();
    let seen: Vec<_> =
        log.iter().map(|l| (l.path.as_str(), l.alpn.as_str(), l.authorization, l.user.as_str())).collect();
    let line = |alpn| (PROFILES, alpn, Authorization::Bearer, "viewer");
    assert_eq!(seen, [line("h2"), line("http/1.1")]);
}

#[test]
fn a_stranger_gets_401_and_a_rule_gives_403() {
    let fleet = Fleet::builder().spokes(1).start();
    fleet.hub().forbid(|r| r.verb == "list" && r.key.namespace.is_empty());
    run(async {
        assert_eq!(get(fleet.hub(), "wrong", PROFILES).await.0, StatusCode::UNAUTHORIZED);
        let (status, body) = get(fleet.hub(), fleet.viewer_token(), PROFILES).await;
        assert_eq!(status, StatusCode::FORBIDDEN);
        assert_eq!(
            body["message"],
            "clusterprofiles.multicluster.x-k8s.io is forbidden: User \"viewer\" cannot list resource \
             \"clusterprofiles\" in API group \"multicluster.x-k8s.io\" at the cluster scope"
        );
    });
}

#[test]
fn the_hub_is_laid_out_as_ocm_does_it() {
    let fleet = Fleet::builder().spokes(2).start();
    let profile = fleet.hub().get(fleet::profile_path("cluster-inventory", "cluster1")).unwrap();
    let provider = &profile["status"]["accessProviders"][0];
    assert_eq!(provider["name"], "open-cluster-management");
    assert_eq!(provider["cluster"]["server"], fleet.server_url("cluster1"));
    let copy = fleet.hub().get("/api/v1/namespaces/cluster-inventory/secrets/cluster1-inventory").unwrap();
    assert_eq!(copy["metadata"]["ownerReferences"][0]["uid"], profile["metadata"]["uid"]);
    let own = fleet.hub().get("/api/v1/namespaces/cluster1/secrets/inventory").unwrap();
    assert_eq!(own["data"], copy["data"]);
}

#[test]
fn a_spoke_accepts_only_its_own_valid_tokens() {
    let expired = AccountSpec { token: TokenKind::jwt(-5), ..AccountSpec::default() };
    let fleet = Fleet::builder().spokes(2).account("cluster1", "old", expired).start();
    let (own, other) = (fleet.token("cluster1", "inventory"), fleet.token("cluster2", "inventory"));
    let new = fleet.rotate("cluster1", "inventory");
    let spoke = fleet.spoke("cluster1");
    run(async {
        for (token, status) in
            [(&own, 200), (&new, 200), (&other, 401), (&fleet.token("cluster1", "old"), 401)]
        {
            assert_eq!(get(spoke, token, "/cluster1/api/v1/namespaces").await.0, status);
        }
        spoke.revoke(&own);
        assert_eq!(get(spoke, &own, "/api/v1/namespaces").await.0, 401);
        assert_eq!(get(spoke, &new, "/cluster2/api/v1/namespaces").await.0, 404);
    });
    assert_eq!((spoke.requests_with(&own), spoke.requests_with(&other)), (2, 1));
    assert!(fleet.secrets().contains(&own) && fleet.secrets().contains(&new));
}

#[test]
fn a_long_list_comes_in_pages_and_a_token_can_expire() {
    let fleet = Fleet::builder().profiles(1200).start();
    fleet.hub().fault(|_| true, Fault::Gone);
    let (token, mut next, mut names, mut pages) = (fleet.viewer_token(), String::new(), Vec::new(), 0);
    run(async {
        loop {
            let (status, body) =
                get(fleet.hub(), token, &format!("{PROFILES}?limit=500&continue={next}")).await;
            if status == StatusCode::GONE {
                continue;
            }
            pages += 1;
            names.extend(
                body["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].clone()),
            );
            match body["metadata"]["continue"].as_str() {
                Some(token) => next = token.to_owned(),
                None => break,
            }
        }
    });
    names.dedup();
    assert_eq!((names.len(), pages), (1200, 3));
}

#[test]
fn each_fault_is_what_its_name_says() {
    let fleet = Fleet::builder().start();
    let hub = fleet.hub();
    let send_within = |limit| {
        let request =
            client(hub, true).get(format!("{}/version", hub.url())).bearer_auth(fleet.viewer_token());
        request.timeout(limit).send()
    };
    let send = || send_within(Duration::from_secs(60));
    run(async {
        let fault = |fault| {
            hub.clear_faults();
            hub.fault(|_| true, fault);
        };
        fault(Fault::Silent);
        assert!(send_within(Duration::from_millis(300)).await.unwrap_err().is_timeout());
        fault(Fault::Close);
        assert!(!send().await.unwrap_err().is_timeout());
        fault(Fault::Truncated);
        assert!(send().await.unwrap().bytes().await.is_err());
        fault(Fault::TooManyRequests { retry_after: 7, times: 1 });
        let response = send().await.unwrap();
        assert_eq!(
            (response.status().as_u16(), &response.headers()["retry-after"]),
            (429, &"7".parse().unwrap())
        );
        assert_eq!(send().await.unwrap().status(), 200);
        fault(Fault::Warning("old".into()));
        assert_eq!(send().await.unwrap().headers()["warning"], "299 - \"old\"");
        fault(Fault::NotJson);
        assert!(send().await.unwrap().text().await.unwrap().starts_with("<html>"));
        hub.clear_faults();
        hub.mute(true);
        assert!(send_within(Duration::from_millis(300)).await.is_err());
        hub.mute(false);
        assert_eq!(send().await.unwrap().status(), 200);
        hub.stop();
        assert!(send().await.is_err());
    });
}

#[test]
fn a_watch_tells_what_is_there_and_what_changes() {
    let fleet = Fleet::builder().spokes(1).start();
    run(async {
        let url = format!("{}{PROFILES}?watch=true", fleet.hub().url());
        let request = client(fleet.hub(), false).get(url).bearer_auth(fleet.viewer_token());
        let mut response = request.send().await.unwrap();
        let mut kinds = Vec::new();
        for step in 0..3 {
            let event: Value = serde_json::from_slice(&response.chunk().await.unwrap().unwrap()).unwrap();
            kinds.push(event["type"].clone());
            let path = fleet::profile_path("cluster-inventory", "cluster1");
            match step {
                0 => fleet.hub().edit(path, |profile| profile["spec"]["displayName"] = json!("new")),
                _ => drop(fleet.hub().delete(path)),
            }
        }
        assert_eq!(kinds, ["ADDED", "MODIFIED", "DELETED"]);
    });
}

#[test]
fn client_certificates_and_passwords_sign_in_at_the_hub() {
    let fleet = Fleet::builder().hub_certificate(CertShape::ProperCa).start();
    let certificate = fleet.client_certificate("alice");
    let password = fleet.password("bob");
    let url = format!("{}/version", fleet.hub().url());
    run(async {
        let response =
            client(fleet.hub(), false).get(&url).basic_auth("bob", Some(&password)).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let pem = format!("{}{}", certificate.cert_pem, certificate.key_pem);
        let bundle = Certificate::from_pem_bundle(fleet.hub().ca_pem().as_bytes()).unwrap();
        let identity = reqwest::Identity::from_pem(pem.as_bytes()).unwrap();
        let with = Client::builder().tls_certs_only(bundle).identity(identity).no_proxy().build().unwrap();
        assert_eq!(with.get(&url).send().await.unwrap().status(), 200);
    });
    let users: Vec<_> = fleet.hub().log().into_iter().map(|line| line.user).collect();
    assert_eq!(users, ["bob", "alice"]);
}
