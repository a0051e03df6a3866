//! The token cache: shared by parallel runs, private, and never in the way.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use e2e::sealed::{Ran, Sealed, exec_info, run, token};
use fleet::{AccountSpec, Fault, Fleet};

const CONTEXT: &str = "cluster1@hub";

fn used(fleet: &Fleet, clusters: usize) -> Sealed {
    let sealed = Sealed::at(fleet);
    for i in 1..=clusters {
        sealed.inventory(&["use", &format!("cluster{i}"), "--context", "hub"]).ok();
    }
    fleet.hub().clear_log();
    sealed
}

fn start(sealed: &Sealed, context: &str) -> Child {
    sealed.plugin(context).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn end(child: Child) -> Ran {
    child.wait_with_output().unwrap().into()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    entries
        .flatten()
        .flat_map(|entry| if entry.path().is_dir() { files(&entry.path()) } else { vec![entry.path()] })
        .collect()
}

#[test]
fn forty_runs_at_once_cost_one_hub_request() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = used(&fleet, 1);
    fleet.hub().fault(|_| true, Fault::Slow(std::time::Duration::from_millis(300)));
    let runs: Vec<_> = (0..40).map(|_| start(&sealed, CONTEXT)).collect();
    for run in runs {
        assert_eq!(token(&end(run).ok()), fleet.token("cluster1", "inventory"));
    }
    assert!(fleet.hub().log().len() <= 2, "{} hub requests", fleet.hub().log().len());
    fleet.hub().mute(true);
    assert_eq!(sealed.token(CONTEXT), fleet.token("cluster1", "inventory"));
}

#[test]
fn forty_clusters_at_once_do_not_wait_for_one_another() {
    let fleet = Fleet::builder().spokes(40).start();
    let sealed = used(&fleet, 40);
    let runs: Vec<_> = (1..=40).map(|i| (i, start(&sealed, &format!("cluster{i}@hub")))).collect();
    for (i, run) in runs {
        assert_eq!(token(&end(run).ok()), fleet.token(&format!("cluster{i}"), "inventory"));
    }
}

#[test]
fn when_the_one_that_asks_is_killed_the_others_go_on() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = used(&fleet, 1);
    let silent = fleet.hub().fault(|_| true, Fault::Silent);
    silent.times(1);
    let line = sealed.plugin_line(CONTEXT);
    let mut holder = sealed.command(&line[0]);
    let mut holder = holder.args(&line[1..]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while fleet.hub().log().is_empty() && files(&sealed.cache()).is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let runs: Vec<_> = (0..10).map(|_| start(&sealed, CONTEXT)).collect();
    holder.kill().unwrap();
    holder.wait().unwrap();
    silent.end();
    for run in runs {
        assert_eq!(token(&end(run).ok()), fleet.token("cluster1", "inventory"));
    }
}

#[test]
fn a_warm_run_does_not_wait_for_a_lock() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = used(&fleet, 1);
    sealed.token(CONTEXT);
    fleet.hub().mute(true);
    let locks: Vec<_> = files(&sealed.cache())
        .into_iter()
        .filter(|path| path.extension().is_some_and(|ext| ext == "lock"))
        .map(|path| fs::File::options().write(true).open(path).unwrap())
        .collect();
    assert!(!locks.is_empty());
    locks.iter().for_each(|lock| lock.lock().unwrap());
    sealed.token(CONTEXT);
}

#[test]
fn nothing_that_shapes_the_answer_can_change_without_a_miss() {
    let fleet = Fleet::builder().spokes(2).account("cluster1", "second", AccountSpec::default()).start();
    let sealed = Sealed::at(&fleet);
    let write = |name: &str, args: &[&str]| {
        sealed
            .inventory(&[&["use", "--context", "hub", "--context-name", name, "--no-switch"], args].concat())
            .ok();
    };
    write("base", &["cluster1", "--sa", "inventory"]);
    sealed.token("base");
    let asks = |name: &str| {
        fleet.hub().clear_log();
        run(&mut sealed.plugin(name)).ok();
        !fleet.hub().log().is_empty()
    };
    assert!(!asks("base"));
    write("cluster", &["cluster2"]);
    assert!(asks("cluster"));
    write("account", &["cluster1", "--sa", "second"]);
    assert!(asks("account"));
    write("as", &["cluster1", "--sa", "inventory", "--as", "somebody"]);
    assert!(asks("as"));

    // Another user of the hub: the entry of the first is not for them.
    let old = sealed.read(".kube/config");
    fleet.hub().accept("another-token-of-a-test", "another");
    sealed.write(".kube/config", &old.replace(fleet.viewer_token(), "another-token-of-a-test"));
    assert!(asks("base"), "another hub user");
    assert!(!asks("base"), "and then it is kept");

    // The profile made anew has another UID, and `use` another request.
    let path = fleet::profile_path("cluster-inventory", "cluster1");
    let mut profile = fleet.hub().get(&*path).unwrap();
    fleet.hub().delete(&*path);
    profile["metadata"]["uid"] = "00000000-0000-0000-0000-00000000000a".into();
    fleet.hub().put(&*path, profile);
    fleet.rotate("cluster1", "inventory");
    write("base", &["cluster1", "--sa", "inventory"]);
    assert!(asks("base"), "another profile");
}

/// In the drop-in form the folder, the variables and files yet to come decide which hub is meant.
#[test]
fn one_hubs_token_is_never_handed_out_for_another_hub() {
    let fleets = [Fleet::builder().spokes(1).start(), Fleet::builder().spokes(1).start()];
    let sealed = Sealed::empty();
    let plugin = e2e::binaries::binaries().join("credential-exec");
    let ask = |folder: &str, kubeconfig: &str| {
        let mut command = sealed.command("/bin/sh");
        command.args(["-c", r#""$@"; exit $?"#, "kubectl"]).arg(&plugin);
        command.args(["--managed-serviceaccount", "inventory"]).current_dir(sealed.path(folder));
        command.env("NAMESPACE", "cluster-inventory").env("KUBECONFIG", kubeconfig);
        token(&run(command.env("KUBERNETES_EXEC_INFO", exec_info("v1", Some("cluster1")))).ok())
    };
    for (folder, fleet) in ["a", "b"].iter().zip(&fleets) {
        sealed.write(&format!("{folder}/config"), &fleet.kubeconfig().to_string());
    }
    for _ in 0..2 {
        for (folder, fleet) in ["a", "b"].iter().zip(&fleets) {
            assert_eq!(ask(folder, "config"), fleet.token("cluster1", "inventory"), "{folder}");
        }
    }
    assert_eq!(ask("a", "first:config"), fleets[0].token("cluster1", "inventory"));
    sealed.write("a/first", &fleets[1].kubeconfig().to_string());
    assert_eq!(ask("a", "first:config"), fleets[1].token("cluster1", "inventory"));
}

#[test]
fn files_that_the_hubs_entry_names_are_looked_at_too() {
    let fleet = Fleet::builder().spokes(1).start();
    let mut config = fleet.kubeconfig();
    let sealed = Sealed::empty();
    let token = sealed.write("token", fleet.viewer_token());
    let ca = sealed.write("ca.crt", &fleet.hub().ca_pem());
    config["users"][0]["user"] = serde_json::json!({"tokenFile": token});
    config["clusters"][0]["cluster"] =
        serde_json::json!({"server": fleet.hub().url(), "certificate-authority": ca});
    sealed.write(".kube/config", &config.to_string());
    sealed.inventory(&["use", "cluster1"]).ok();
    sealed.token(CONTEXT);
    let asks = || {
        fleet.hub().clear_log();
        run(&mut sealed.plugin(CONTEXT)).ok();
        !fleet.hub().log().is_empty()
    };
    assert!(!asks());
    fleet.hub().accept("the-token-of-another-person", "another");
    sealed.write("token", "the-token-of-another-person");
    assert!(asks(), "another person");
    sealed.write("ca.crt", fleet::Identity::new(fleet::CertShape::ProperCa).ca_pem());
    run(&mut sealed.plugin(CONTEXT)).fails(4);
}

#[test]
fn no_cache_neither_reads_nor_writes() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    sealed.inventory(&["use", "cluster1", "--no-cache"]).ok();
    fleet.hub().clear_log();
    for _ in 0..2 {
        sealed.token(CONTEXT);
    }
    assert_eq!(fleet.hub().log().len(), 2);
    assert_eq!(files(&sealed.cache()), Vec::<PathBuf>::new());
}

#[test]
fn clearing_the_cache_forgets_one_cluster_or_all() {
    let fleet = Fleet::builder().spokes(3).start();
    let sealed = used(&fleet, 3);
    for i in 1..=3 {
        sealed.token(&format!("cluster{i}@hub"));
    }
    assert_eq!(sealed.inventory(&["cache", "clear", "cluster1"]).ok(), "removed 1 token\n");
    fleet.hub().clear_log();
    sealed.token("cluster2@hub");
    assert!(fleet.hub().log().is_empty());
    sealed.token("cluster1@hub");
    assert_eq!(fleet.hub().log().len(), 1);
    assert_eq!(sealed.inventory(&["cache", "clear"]).ok(), "removed 3 tokens\n");
    for file in files(&sealed.cache()) {
        let text = fs::read(&file).unwrap();
        let text = String::from_utf8_lossy(&text);
        assert!(fleet.secrets().iter().all(|secret| !text.contains(secret.as_str())), "{}", file.display());
    }
}

#[test]
fn whatever_lies_in_its_place_the_credential_is_printed_and_nothing_outside_is_touched() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = used(&fleet, 1);
    let good = fleet.token("cluster1", "inventory");
    let entry = || {
        sealed.token(CONTEXT);
        files(&sealed.cache()).into_iter().find(|file| file.extension().is_some_and(|e| e == "json")).unwrap()
    };
    let outside = sealed.write("outside", "untouched");
    for damage in ["empty", "truncated", "binary", "folder", "future", "link", "dangling"] {
        let _ = fs::remove_dir_all(sealed.cache());
        let path = entry();
        let text = fs::read(&path).unwrap();
        match damage {
            "empty" => fs::write(&path, "").unwrap(),
            "truncated" => fs::write(&path, &text[..text.len() / 2]).unwrap(),
            "binary" => fs::write(&path, [0xff, 0x00, 0xfe].repeat(99)).unwrap(),
            "future" => {
                let text = String::from_utf8_lossy(&text).replace("\"version\":1", "\"version\":99");
                fs::write(&path, text).unwrap();
            }
            other => {
                fs::remove_file(&path).unwrap();
                match other {
                    "folder" => fs::create_dir(&path).unwrap(),
                    "link" => symlink(&outside, &path).unwrap(),
                    _ => symlink(sealed.path("nowhere"), &path).unwrap(),
                }
            }
        }
        for _ in 0..2 {
            let ran = run(&mut sealed.plugin(CONTEXT));
            assert_eq!((token(&ran.stdout), &*ran.stderr), (good.clone(), ""), "{damage}");
        }
        assert_eq!(fs::read_to_string(&outside).unwrap(), "untouched", "{damage}");
        assert!(!sealed.path("nowhere").exists(), "{damage}");
    }

    let _ = fs::remove_dir_all(sealed.cache());
    let elsewhere = sealed.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, sealed.cache()).unwrap();
    assert_eq!(sealed.token(CONTEXT), good);
    fs::remove_file(sealed.cache()).unwrap();

    fs::write(sealed.cache(), "a file").unwrap();
    assert_eq!(sealed.token(CONTEXT), good);
    let ran = run(sealed.plugin(CONTEXT).env_remove("HOME").env_remove("KUBECTL_INVENTORY_CACHE_DIR"));
    assert_eq!(token(&ran.ok()), good);
}

#[test]
fn what_is_kept_is_for_the_user_alone_under_any_umask() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = used(&fleet, 1);
    let mut loose = sealed.command("/bin/sh");
    run(loose.args(["-c", r#"umask 000; "$@"; exit $?"#, "sh"]).args(sealed.plugin_line(CONTEXT))).ok();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for file in files(&sealed.cache()) {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
        assert_eq!(mode(file.parent().unwrap()), 0o700, "{}", file.display());
    }

    // Readable by others: not used, and not made use of.
    let entry =
        files(&sealed.cache()).into_iter().find(|f| f.extension().is_some_and(|e| e == "json")).unwrap();
    fs::set_permissions(&entry, fs::Permissions::from_mode(0o644)).unwrap();
    fleet.hub().clear_log();
    sealed.token(CONTEXT);
    assert_eq!(fleet.hub().log().len(), 1, "a loose entry is not trusted");
}
