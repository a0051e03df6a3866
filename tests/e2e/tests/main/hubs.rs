//! How the hub is reached: every login, every certificate shape, every proxy.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::Ordering;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use e2e::sealed::{Sealed, run, token};
use fleet::{Authorization, CertShape, CertSpec, Fleet};
use serde_json::{Value, json};

fn as_user(fleet: &Fleet, user: Value) -> Sealed {
    let mut config = fleet.kubeconfig();
    config["users"][0]["user"] = user;
    Sealed::with(&config)
}

fn works(fleet: &Fleet, sealed: &Sealed) {
    sealed.inventory(&["use", "cluster1"]).ok();
    assert_eq!(sealed.token("cluster1@hub"), fleet.token("cluster1", "inventory"));
}

#[test]
fn every_kind_of_login_works() {
    let fleet = Fleet::builder().spokes(1).start();
    let files = Sealed::empty();
    let certificate = fleet.client_certificate("viewer");
    let token_file = files.write("token", &format!("{}\n", fleet.viewer_token()));
    let cert_file = files.write("cert", &certificate.cert_pem);
    let key_file = files.write("key", &certificate.key_pem);
    let password = fleet.password("viewer");
    let (pem, key) = (STANDARD.encode(&certificate.cert_pem), STANDARD.encode(&certificate.key_pem));
    for (user, how) in [
        (json!({"token": fleet.viewer_token()}), Authorization::Bearer),
        (json!({"tokenFile": token_file}), Authorization::Bearer),
        (json!({"client-certificate-data": pem, "client-key-data": key}), Authorization::ClientCertificate),
        (json!({"client-certificate": cert_file, "client-key": key_file}), Authorization::ClientCertificate),
        (json!({"username": "viewer", "password": password}), Authorization::Basic),
    ] {
        let kind = user.as_object().unwrap().keys().next().unwrap().clone();
        fleet.hub().clear_log();
        works(&fleet, &as_user(&fleet, user));
        for logged in fleet.hub().log() {
            assert_eq!((logged.authorization, &*logged.user), (how, "viewer"), "{kind}");
        }
    }
}

#[test]
fn a_hubs_own_plugin_runs_once_a_command_in_both_versions() {
    let fleet = Fleet::builder().spokes(1).start();
    for version in ["v1", "v1beta1"] {
        let sealed = Sealed::empty();
        let script = format!(
            r#"#!/bin/sh
echo run >> "$HOME/runs"
echo '{{"apiVersion":"client.authentication.k8s.io/{version}","kind":"ExecCredential","status":{{"token":"{}"}}}}'
"#,
            fleet.viewer_token()
        );
        let script = sealed.write("login.sh", &script);
        let mut config = fleet.kubeconfig();
        config["users"][0]["user"] = json!({"exec": {
            "apiVersion": format!("client.authentication.k8s.io/{version}"), "command": "/bin/sh",
            "args": [script], "interactiveMode": "Never"}});
        sealed.write(".kube/config", &config.to_string());
        let runs = || {
            std::mem::take(&mut std::fs::read_to_string(sealed.path("runs")).unwrap_or_default())
                .lines()
                .count()
        };
        sealed.inventory(&["use", "cluster1"]).ok();
        assert_eq!(runs(), 1, "{version}");
        assert_eq!(sealed.token("cluster1@hub"), fleet.token("cluster1", "inventory"));
        assert_eq!(runs(), 2, "{version}");
        sealed.token("cluster1@hub");
        assert_eq!(runs(), 2, "warm: not at all");
    }
}

#[test]
fn a_pods_own_account_is_a_login() {
    let fleet = Fleet::builder().spokes(1).start();
    // Without a kubeconfig and outside of a Pod there is no hub, and that is said.
    let sealed = Sealed::empty();
    let plugin = e2e::binaries::binaries().join("credential-exec");
    let mut command = sealed.command(plugin);
    command.args(["--managed-serviceaccount", "inventory"]).env_remove("KUBECONFIG");
    let ran = run(command.env("KUBERNETES_EXEC_INFO", e2e::sealed::exec_info("v1", Some("cluster1"))));
    assert!(ran.code != 0 && ran.stderr.contains("kube/config"), "{ran:?}");
    drop(fleet);
}

#[test]
fn a_hub_certificate_of_every_shape_is_accepted_when_it_is_the_one_given() {
    for shape in [
        CertShape::LeafAndSigner,
        CertShape::LoneLeaf,
        CertShape::SelfSignedCaTrue,
        CertShape::SelfSignedLeaf,
        CertShape::ProperCa,
    ] {
        let fleet = Fleet::builder().spokes(1).hub_certificate(shape).start();
        works(&fleet, &Sealed::at(&fleet));

        // Another certificate of the same name.
        let sealed = Sealed::at(&fleet);
        fleet.hub().present(&fleet::Identity::new(shape));
        let said = sealed.inventory(&["get"]);
        assert!(said.code != 0 && said.stderr.contains("certificate"), "{shape:?}: {said:?}");
    }
}

#[test]
fn an_expired_a_misnamed_and_a_clients_certificate_are_refused_in_every_shape() {
    for shape in
        [CertShape::LeafAndSigner, CertShape::LoneLeaf, CertShape::SelfSignedCaTrue, CertShape::ProperCa]
    {
        for (what, spec) in [
            ("expired", CertSpec { expired: true, ..shape.into() }),
            ("misnamed", CertSpec { names: vec!["elsewhere.example".into()], ..shape.into() }),
            ("client", CertSpec { client_only: true, ..shape.into() }),
        ] {
            let fleet = Fleet::builder().spokes(1).hub_certificate(spec).start();
            let said = Sealed::at(&fleet).inventory(&["get"]);
            assert!(said.code != 0 && said.stdout.is_empty(), "{shape:?} {what}: {said:?}");
        }
    }
}

#[test]
fn a_leaf_renewed_under_the_same_signer_breaks_nothing() {
    let fleet = Fleet::builder().spokes(1).hub_certificate(CertShape::LeafAndSigner).start();
    let sealed = Sealed::at(&fleet);
    works(&fleet, &sealed);
    fleet.hub().present(&fleet.hub().identity().renewed());
    sealed.inventory(&["cache", "clear"]).ok();
    assert_eq!(sealed.token("cluster1@hub"), fleet.token("cluster1", "inventory"));
}

#[test]
fn a_hub_over_plain_http_gets_no_token() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let seen = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().ok()?;
        let mut text = [0; 4096];
        let n = stream.read(&mut text).ok()?;
        let _ = stream.write_all(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n");
        Some(String::from_utf8_lossy(&text[..n]).into_owned())
    });
    let fleet = Fleet::builder().start();
    let mut config = fleet.kubeconfig();
    config["clusters"][0]["cluster"] = json!({"server": format!("http://{address}")});
    let ran = Sealed::with(&config).inventory(&["get", "--request-timeout", "3s"]);
    assert_ne!(ran.code, 0);
    let _ = TcpStream::connect(address);
    let text = seen.join().unwrap().unwrap_or_default();
    assert!(!text.contains(fleet.viewer_token()), "{text}");
}

#[test]
fn proxies_are_used_as_kubectl_uses_them() {
    let fleet = Fleet::builder().spokes(1).start();
    let (address, count) = e2e::proxy::start(fleet.hub().address());
    let used = || count.swap(0, Ordering::SeqCst) > 0;

    // In the kubeconfig: also for a loopback address.
    let mut config = fleet.kubeconfig();
    config["clusters"][0]["cluster"]["proxy-url"] = json!(format!("http://{address}"));
    Sealed::with(&config).inventory(&["get"]).ok();
    assert!(used());

    // By variable: never for the loopback, and NO_PROXY is heeded.
    let sealed = Sealed::at(&fleet);
    let mut command = sealed.inventory_command(&["get"]);
    run(command.env("HTTPS_PROXY", format!("http://{address}"))).ok();
    assert!(!used());
    let mut config = fleet.kubeconfig();
    config["clusters"][0]["cluster"]["server"] = json!("https://hub.example:6443");
    config["clusters"][0]["cluster"]["tls-server-name"] = json!("localhost");
    let sealed = Sealed::with(&config);
    let get = |no_proxy: &str| {
        let mut command = sealed.inventory_command(&["get", "--request-timeout", "5s"]);
        run(command.env("HTTPS_PROXY", format!("http://{address}")).env("NO_PROXY", no_proxy)).code
    };
    assert_eq!(get(""), 0);
    assert!(used());
    for exempt in ["*", "hub.example", ".example", "x, hub.example ,y"] {
        assert_ne!(get(exempt), 0, "{exempt}: there is no way without the proxy");
        assert!(!used(), "{exempt}");
    }
    assert_eq!(get("10.0.0.0/8,other.example"), 0);
}

#[test]
fn a_spoke_may_be_a_hub_itself_but_no_circle_forks() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    sealed.inventory(&["use", "cluster1"]).ok();

    // The entry's own hub is the entry: one process, at once.
    let mut config = sealed.config();
    let line = sealed.plugin_line("cluster1@hub");
    let users = config["users"].as_array_mut().unwrap();
    let exec = users.iter().find(|u| u["name"] == "cluster1@hub").unwrap()["user"].clone();
    users.iter_mut().find(|u| u["name"] == "viewer").unwrap()["user"] = exec;
    sealed.write(".kube/config", &config.to_string());
    let ran = run(sealed.command(&line[0]).args(&line[1..]));
    assert!(ran.code != 0 && ran.stderr.contains("refusing to recurse"), "{ran:?}");

    // Two entries that are each other's hub.
    let sealed = Sealed::at(&fleet);
    sealed.inventory(&["use", "cluster1"]).ok();
    let exec = sealed.entry("users", "cluster1@hub")["user"].clone();
    let mut config = sealed.config();
    let server = config["clusters"][0]["cluster"].clone();
    for (name, hub) in [("one", "two"), ("two", "one")] {
        let mut user = exec.clone();
        for arg in user["exec"]["args"].as_array_mut().unwrap() {
            if arg.as_str().unwrap().starts_with("--context=") {
                *arg = json!(format!("--context={hub}"));
            }
        }
        config["users"].as_array_mut().unwrap().push(json!({"name": name, "user": user}));
        config["clusters"].as_array_mut().unwrap().push(json!({"name": name, "cluster": server.clone()}));
        config["contexts"]
            .as_array_mut()
            .unwrap()
            .push(json!({"name": name, "context": {"cluster": name, "user": name}}));
    }
    sealed.write(".kube/config", &config.to_string());
    let line = sealed.plugin_line("one");
    assert!(line.iter().any(|word| word == "--context=two"), "{line:?}");
    let ran = run(sealed.command(&line[0]).args(&line[1..]));
    assert!(ran.code != 0 && ran.stderr.contains("refusing to recurse"), "{ran:?}");

    // A hub of hubs: the hub's login is a token of another fleet's account.
    let upper = Fleet::builder().spokes(1).start();
    let account = upper.token("cluster1", "inventory");
    fleet.hub().accept(&account, "system:serviceaccount:x:inventory");
    let sealed = Sealed::at(&upper);
    sealed.inventory(&["use", "cluster1", "--context-name", "middle"]).ok();
    let mut config = sealed.config();
    let middle = fleet.kubeconfig()["clusters"][0]["cluster"].clone();
    config["clusters"].as_array_mut().unwrap().push(json!({"name": "lower", "cluster": middle}));
    config["contexts"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "lower", "context": {"cluster": "lower", "user": "middle"}}));
    sealed.write(".kube/config", &config.to_string());
    sealed.inventory(&["use", "cluster1", "--context", "lower"]).ok();
    assert_eq!(token(&run(&mut sealed.plugin("cluster1@lower")).ok()), fleet.token("cluster1", "inventory"));
}
