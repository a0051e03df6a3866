//! What is measured against: a real hub and a real spoke laid out as OCM does it, a home with a
//! kubeconfig for each, and 10,000 more profiles when asked for.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use e2e::controlplane::ControlPlane;
use e2e::controlplane::crds::install_crd;
use e2e::controlplane::ocm::{INVENTORY, Joined, allow, profile};
use e2e::sealed::{entry, plugin_line, token, yaml};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::timing::Run;
use super::{Outcome, stdout_of};

const CLUSTER: &str = "cluster1";
const ACCOUNT: &str = "dev";
const PROFILES: &str = "/apis/multicluster.x-k8s.io/v1alpha1";
const PAGE: usize = 500;
/// As much as the published CA of a hub whose certificate has a signer.
const CA_BYTES: usize = 3 * 1024;

/// A folder that holds all files of the run, our binaries too.
pub struct Home(TempDir);

impl Home {
    /// With a kubeconfig for the hub.
    pub fn new(binaries: &Path, kubeconfig: &str) -> Outcome<Self> {
        let dir = tempfile::Builder::new().prefix("inventory-bench-").tempdir().map_err(|e| e.to_string())?;
        let home = Self(dir);
        for name in ["kubectl-inventory", "credential-exec"] {
            home.install(binaries, name)?;
        }
        home.write("hub.yaml", kubeconfig)?;
        Ok(home)
    }

    /// A copy, as an installation makes one. What a linker has just written lies in the system's page
    /// cache in small pieces and starts a third slower.
    fn install(&self, binaries: &Path, name: &str) -> Outcome<()> {
        fs::copy(binaries.join(name), self.path(name)).map(drop).map_err(|error| format!("{name}: {error}"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> Outcome<()> {
        fs::write(self.path(name), text).map_err(|error| format!("{name}: {error}"))
    }

    /// A program in this home: it knows the hub and nothing else of the machine.
    pub fn run(&self, program: impl Into<PathBuf>) -> Run {
        self.env().into_iter().fold(Run::new(program), |run, (name, value)| run.env(name, value))
    }

    /// One of our binaries.
    pub fn ours(&self, name: &str) -> Run {
        self.run(self.path(name))
    }

    /// What `use` writes into a new file for a cluster.
    pub fn use_cluster(&self, cluster: &str, flags: &[&str], file: &str) -> Outcome<Value> {
        let run = self.ours("kubectl-inventory").args(["use", cluster, "--exec-command"]);
        let file = self.path(file);
        run.arg(self.path("credential-exec")).args(flags).arg("-o").arg(&file).output()?;
        Ok(yaml(&fs::read_to_string(&file).map_err(|error| error.to_string())?))
    }

    /// The same as lines for a shell.
    pub fn exports(&self) -> Outcome<String> {
        Ok(self.env().map(|(name, value)| format!("export {name}={}\n", value.display())).concat())
    }

    fn env(&self) -> [(&'static str, PathBuf); 6] {
        [
            ("HOME", self.0.path().to_owned()),
            ("PATH", std::env::var_os("PATH").unwrap_or_default().into()),
            ("KUBECONFIG", self.path("hub.yaml")),
            ("KUBECTL_INVENTORY_CACHE_DIR", self.path("cache")),
            ("KUBECTL_INVENTORY_DATA_DIR", self.path("data")),
            ("KUBECTL_INVENTORY_CONFIG", self.path("config.yaml")),
        ]
    }
}

/// Hub, spoke and home.
pub struct Laid {
    pub home: Home,
    hub: ControlPlane,
    spoke: ControlPlane,
    /// The plugin's command line, as `use` wrote it.
    plugin: Vec<String>,
    token: String,
}

impl Laid {
    /// Starts both control planes, joins one cluster, and lets `use` write its context.
    pub fn out(binaries: &Path) -> Outcome<Self> {
        let (hub, spoke) = ControlPlane::start_two("hub", "spoke")?.ok_or("nothing to measure against")?;
        let token = Joined::join(&hub, &spoke, CLUSTER, ACCOUNT)?.token()?;
        let home = Home::new(binaries, &hub.kubeconfig(&hub.token("viewer")))?;
        home.write("hub.ca", hub.ca_pem())?;
        let written = home.use_cluster(CLUSTER, &[], "spoke.yaml")?;
        let user = written["users"][0]["name"].as_str().ok_or("use wrote no user")?;
        let plugin = plugin_line(&entry(&written, "users", user));
        Ok(Self { home, hub, spoke, plugin, token })
    }

    /// The plugin as kubectl runs it.
    pub fn plugin(&self) -> Run {
        let run = self.home.run(&self.plugin[0]).args(&self.plugin[1..]);
        run.env("KUBERNETES_EXEC_INFO", self.exec_info())
    }

    /// The client-go plugin, told the same.
    pub fn yardstick(&self, program: &Path) -> Run {
        let run = self.home.run(program).args(["--managed-serviceaccount", ACCOUNT]);
        run.env("KUBERNETES_EXEC_INFO", self.exec_info()).env("NAMESPACE", INVENTORY)
    }

    /// What kubectl passes with provideClusterInfo.
    fn exec_info(&self) -> String {
        json!({
            "kind": "ExecCredential",
            "apiVersion": "client.authentication.k8s.io/v1",
            "spec": {
                "cluster": {
                    "server": self.spoke.server(),
                    "certificate-authority-data": STANDARD.encode(self.spoke.ca_pem()),
                    "config": { "clusterName": CLUSTER },
                },
                "interactive": false,
            },
        })
        .to_string()
    }

    /// curl of the Secret that a cold run reads.
    pub fn curl_secret(&self) -> Outcome<Run> {
        let secret = format!("/api/v1/namespaces/{INVENTORY}/secrets/{CLUSTER}-{ACCOUNT}");
        self.home.write("secret.curl", &self.curl_config([secret]))?;
        Ok(self.home.run("curl").arg("--config").arg(self.home.path("secret.curl")))
    }

    fn curl_config(&self, paths: impl IntoIterator<Item = String>) -> String {
        let mut config = format!(
            "silent\nshow-error\nfail\ncacert = \"{}\"\nheader = \"Authorization: Bearer {}\"\n",
            self.home.path("hub.ca").display(),
            self.hub.token("viewer")
        );
        for path in paths {
            config.push_str(&format!("url = \"{}{path}\"\n", self.hub.server()));
        }
        config
    }

    /// Makes sure that a plugin answers with the token that the hub has.
    pub fn expect_token(&self, plugin: &Run) -> Outcome<()> {
        if token(&plugin.output()?) == self.token {
            Ok(())
        } else {
            Err("a plugin answers another token".into())
        }
    }

    /// The cache entries, and when they were written.
    pub fn cached(&self) -> Outcome<Vec<(PathBuf, SystemTime)>> {
        let dir = self.home.path("cache/credentials");
        let failed = |error: std::io::Error| format!("{}: {error}", dir.display());
        let mut entries = Vec::new();
        for file in fs::read_dir(&dir).map_err(failed)? {
            let file = file.map_err(failed)?;
            if file.path().extension().is_some_and(|extension| extension == "json") {
                entries
                    .push((file.path(), file.metadata().and_then(|meta| meta.modified()).map_err(failed)?));
            }
        }
        if entries.is_empty() { Err("nothing is cached".into()) } else { Ok(entries) }
    }

    /// Forgets every token.
    pub fn empty_cache(&self) -> Outcome<()> {
        fs::remove_dir_all(self.home.path("cache")).map_err(|error| format!("the cache: {error}"))
    }

    /// Writes `count` more profiles as OCM does: created by one manager, then a patch of the status.
    pub fn fill(&self, count: usize) -> Outcome<()> {
        const WRITERS: usize = 8;
        let ca = self.long_ca();
        thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let ca = &ca;
                    scope.spawn(move || (writer..count).step_by(WRITERS).try_for_each(|n| self.put(n, ca)))
                })
                .collect();
            writers.into_iter().try_for_each(|writer| writer.join().map_err(|_| "a writer panicked")?)
        })
    }

    fn put(&self, number: usize, ca: &str) -> Outcome<()> {
        let name = format!("fleet-{number:05}");
        let mut profile = profile(
            &name,
            &format!("https://cluster-proxy-addon-user.open-cluster-management-addon.svc:9092/{name}"),
            "",
        );
        profile["status"]["accessProviders"][0]["cluster"]["certificate-authority-data"] = ca.into();
        profile["status"]["properties"] = properties(&name, number);
        let collection = format!("{PROFILES}/namespaces/{INVENTORY}/clusterprofiles");
        let manager = "?fieldManager=registration";
        self.hub.request("POST", &format!("{collection}{manager}"), Some(&profile))?;
        let status = json!({ "status": profile["status"] });
        self.hub.request("PATCH", &format!("{collection}/{name}/status{manager}"), Some(&status)).map(drop)
    }

    /// A scheduler's choice of the first `count` of those profiles, in slices as large as they may be.
    pub fn place(&self, placement: &str, count: usize) -> Outcome<()> {
        const SLICE: usize = 100;
        let group = "multicluster.x-k8s.io";
        install_crd(&self.hub, group, "v1alpha1", "PlacementDecision", "placementdecisions", true)?;
        let rule =
            json!([{ "apiGroups": [group], "resources": ["placementdecisions"], "verbs": ["get", "list"] }]);
        allow(&self.hub, None, "viewer", "placements", &rule)?;
        let all: Vec<usize> = (0..count).collect();
        all.chunks(SLICE).enumerate().try_for_each(|(index, slice)| {
            let decision =
                |number: &usize| json!({ "clusterProfileRef": { "name": format!("fleet-{number:05}") } });
            let decisions: Vec<Value> = slice.iter().map(decision).collect();
            let object = json!({
                "apiVersion": "multicluster.x-k8s.io/v1alpha1",
                "kind": "PlacementDecision",
                "metadata": { "name": format!("{placement}-{index}"), "labels": {
                    "multicluster.x-k8s.io/placement-key": placement,
                    "multicluster.x-k8s.io/decision-key": placement,
                    "multicluster.x-k8s.io/decision-index": index.to_string(),
                } },
                "decisions": decisions,
            });
            let collection = format!("{PROFILES}/namespaces/{INVENTORY}/placementdecisions");
            self.hub.request("POST", &collection, Some(&object)).map(drop)
        })
    }

    /// Changes one profile, and waits until the API server has seen it itself.
    pub fn touch(&self) -> Outcome<()> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_err(|e| e.to_string())?;
        let changed = json!({ "metadata": { "annotations": { "touched": format!("{now:?}") } } });
        let path = format!("{PROFILES}/namespaces/{INVENTORY}/clusterprofiles/{CLUSTER}");
        self.hub.request("PATCH", &path, Some(&changed))?;
        thread::sleep(Duration::from_millis(300));
        Ok(())
    }

    /// Certificates enough for the size that a published CA bundle has; as with OCM's cluster-proxy,
    /// it is the same in all profiles.
    fn long_ca(&self) -> String {
        let ours = [&self.hub, &self.spoke].map(|plane| [plane.ca_pem(), plane.admin_certificate().0]);
        let mut text = STANDARD.encode(ours.concat().concat());
        text.truncate(CA_BYTES);
        text
    }

    /// Writes a config for one curl that fetches all pages: one connection, unpacked, thrown away.
    /// The continue tokens are those of now, since they grow old.
    pub fn write_pages(&self, file: &Path) -> Outcome<()> {
        let mut paths = Vec::new();
        let mut next = String::new();
        loop {
            let path = format!("{PROFILES}/clusterprofiles?limit={PAGE}{next}");
            let metadata = self.metadata_of(&path)?;
            paths.push(path);
            match metadata["continue"].as_str().filter(|token| !token.is_empty()) {
                Some(token) => next = format!("&continue={token}"),
                None => break,
            }
        }
        let outputs = "output = \"/dev/null\"\n".repeat(paths.len());
        let config = format!("compressed\n{}{outputs}", self.curl_config(paths));
        fs::write(file, config).map_err(|error| error.to_string())
    }

    /// A list's own metadata; only the objects' metadata travels.
    fn metadata_of(&self, path: &str) -> Outcome<Value> {
        let address = format!("{}{path}", self.hub.server());
        let mut curl = std::process::Command::new("curl");
        curl.args(["--silent", "--show-error", "--fail", "--cacert"])
            .arg(self.home.path("hub.ca"))
            .args(["--header", &format!("Authorization: Bearer {}", self.hub.token("viewer"))])
            .args([
                "--header",
                "Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                &address,
            ]);
        let text = stdout_of(&mut curl, Path::new("curl"))?;
        let list: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        Ok(list["metadata"].clone())
    }
}

fn properties(name: &str, number: usize) -> Value {
    let pairs = [
        ("cluster.clusterset.k8s.io", name),
        ("clusterset.k8s.io", ["default", "prod", "test"][number % 3]),
        ("id.k8s.io", name),
        ("kubeversion.open-cluster-management.io", "v1.36.3"),
        ("platform.open-cluster-management.io", "AWS"),
        ("product.open-cluster-management.io", "EKS"),
        ("region.open-cluster-management.io", "eu-central-1"),
        ("infrastructure.open-cluster-management.io", "{\"infraName\":\"fleet\"}"),
        ("cpu", "24"),
        ("memory", "96Gi"),
    ];
    pairs.map(|(name, value)| json!({ "name": name, "value": value })).into_iter().collect()
}
