//! A hub laid out as Open Cluster Management does it, with one managed cluster that is real.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::ControlPlane;
use super::crds::install_crds;

/// Where the hub keeps its ClusterProfiles.
pub const INVENTORY: &str = "cluster-inventory";
/// Where OCM's add-ons run on the hub.
pub const ADDON: &str = "open-cluster-management-addon";
/// Where the agent keeps the accounts on a managed cluster.
pub const AGENT: &str = "open-cluster-management-agent-addon";

const PROFILES: &str = "/apis/multicluster.x-k8s.io/v1alpha1";
const ACCOUNTS: &str = "/apis/authentication.open-cluster-management.io/v1beta1";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
/// OCM's default for a token, 8640 hours.
const VALIDITY: u32 = 8640 * 3600;

/// A cluster that joined a hub, with one ManagedServiceAccount on it.
pub struct Joined<'a> {
    hub: &'a ControlPlane,
    spoke: &'a ControlPlane,
    cluster: String,
    account: String,
}

impl<'a> Joined<'a> {
    /// Lays out everything: kinds, namespaces, the profile (its server is the spoke's own), the
    /// account, both Secrets, the rights of user `viewer`, and the account on the spoke.
    pub fn join(
        hub: &'a ControlPlane,
        spoke: &'a ControlPlane,
        cluster: &str,
        account: &str,
    ) -> Result<Self, String> {
        install_crds(hub)?;
        for namespace in [INVENTORY, ADDON, cluster] {
            hub.create_namespace(namespace)?;
        }
        hub.create(
            "/apis/proxy.open-cluster-management.io/v1alpha1/managedproxyconfigurations",
            &json!({
                "apiVersion": "proxy.open-cluster-management.io/v1alpha1",
                "kind": "ManagedProxyConfiguration",
                "metadata": { "name": "cluster-proxy" },
                "spec": { "proxyServer": { "namespace": ADDON } },
            }),
        )?;
        allow_inventory(hub, "viewer")?;

        let joined = Self { hub, spoke, cluster: cluster.to_owned(), account: account.to_owned() };
        joined.prepare_spoke()?;
        put_profile(hub, INVENTORY, &profile(cluster, &spoke.server(), spoke.ca_pem()))?;
        joined.create_managed_account()?;
        joined.report_token()?;
        Ok(joined)
    }

    /// The profile as it is on the hub.
    pub fn profile(&self) -> Result<Value, String> {
        self.hub.request(
            "GET",
            &format!("{PROFILES}/namespaces/{INVENTORY}/clusterprofiles/{}", self.cluster),
            None,
        )
    }

    /// The account's name on the spoke, as `auth whoami` says it there.
    pub fn subject(&self) -> String {
        format!("system:serviceaccount:{AGENT}:{}", self.account)
    }

    /// The token that the hub now has.
    pub fn token(&self) -> Result<String, String> {
        let path = format!("/api/v1/namespaces/{}/secrets/{}", self.cluster, self.account);
        let secret = self.hub.request("GET", &path, None)?;
        let token = secret["data"]["token"].as_str().unwrap_or_default();
        let bytes = STANDARD.decode(token).map_err(|error| error.to_string())?;
        String::from_utf8(bytes).map_err(|error| error.to_string())
    }

    /// The agent's rotation: a new token in both Secrets, the old one stays good until it expires.
    pub fn report_token(&self) -> Result<(), String> {
        let token = self.spoke.request_token(AGENT, &self.account, VALIDITY)?;
        let (cluster, account) = (&self.cluster, &self.account);
        let data = json!({ "token": token["status"]["token"], "ca.crt": self.spoke.ca_pem() });
        self.put_secret(
            cluster,
            account,
            json!({ "authentication.open-cluster-management.io/is-managed-serviceaccount": "true" }),
            None,
            &data,
        )?;
        let copy = format!("{cluster}-{account}");
        let owner = json!([{
            "apiVersion": "multicluster.x-k8s.io/v1alpha1",
            "kind": "ClusterProfile",
            "name": cluster,
            "uid": self.profile()?["metadata"]["uid"],
        }]);
        self.put_secret(
            INVENTORY,
            &copy,
            json!({ "authentication.open-cluster-management.io/synced-from": copy }),
            Some(owner),
            &data,
        )?;

        let now = &token["metadata"]["creationTimestamp"];
        let condition = |kind| json!({ "type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": now });
        let status = json!({ "status": {
            "expirationTimestamp": token["status"]["expirationTimestamp"],
            "tokenSecretRef": { "name": account, "lastRefreshTimestamp": now },
            "conditions": [condition("SecretCreated"), condition("TokenReported")],
        }});
        let path = format!("{ACCOUNTS}/namespaces/{cluster}/managedserviceaccounts/{account}/status");
        self.hub.request("PATCH", &path, Some(&status)).map(|_| ())
    }

    /// The account is made anew on the spoke, which revokes its old token; the hub gets a new one.
    /// Returns when the spoke refuses the old one.
    pub fn recreate_account(&self) -> Result<(), String> {
        let old = self.token()?;
        let path = format!("/api/v1/namespaces/{AGENT}/serviceaccounts/{}", self.account);
        self.spoke.request("DELETE", &path, None)?;
        self.prepare_spoke()?;
        self.report_token()?;
        self.spoke.wait_until_refused(&old)
    }

    fn prepare_spoke(&self) -> Result<(), String> {
        self.spoke.create_namespace(AGENT)?;
        let account = json!({ "metadata": { "name": self.account } });
        self.spoke.create(&format!("/api/v1/namespaces/{AGENT}/serviceaccounts"), &account)?;
        let subject = json!({ "kind": "ServiceAccount", "name": self.account, "namespace": AGENT });
        bind(self.spoke, None, &format!("{}-admin", self.account), "ClusterRole", "cluster-admin", &subject)
    }

    fn create_managed_account(&self) -> Result<(), String> {
        let account = json!({
            "apiVersion": "authentication.open-cluster-management.io/v1beta1",
            "kind": "ManagedServiceAccount",
            "metadata": {
                "name": self.account,
                "labels": { "authentication.open-cluster-management.io/sync-to-clusterprofile": "true" },
            },
            "spec": { "rotation": { "enabled": true, "validity": "8640h0m0s" } },
        });
        let path = format!("{ACCOUNTS}/namespaces/{}/managedserviceaccounts", self.cluster);
        self.hub.create(&path, &account).map(|_| ())
    }

    fn put_secret(
        &self,
        namespace: &str,
        name: &str,
        labels: Value,
        owner: Option<Value>,
        data: &Value,
    ) -> Result<(), String> {
        let secret = json!({
            "metadata": { "name": name, "labels": labels, "ownerReferences": owner },
            "stringData": data,
        });
        let collection = format!("/api/v1/namespaces/{namespace}/secrets");
        self.hub.create(&collection, &secret)?;
        self.hub
            .request("PATCH", &format!("{collection}/{name}"), Some(&json!({ "stringData": data })))
            .map(|_| ())
    }
}

/// A ClusterProfile as OCM publishes it, with access provider `open-cluster-management`.
pub fn profile(cluster: &str, server: &str, ca_pem: &str) -> Value {
    json!({
        "apiVersion": "multicluster.x-k8s.io/v1alpha1",
        "kind": "ClusterProfile",
        "metadata": {
            "name": cluster,
            "labels": {
                "x-k8s.io/cluster-manager": "open-cluster-management",
                "open-cluster-management.io/cluster-name": cluster,
                "multicluster.x-k8s.io/clusterset": "default",
            },
        },
        "spec": { "displayName": cluster, "clusterManager": { "name": "open-cluster-management" } },
        "status": {
            "version": { "kubernetes": "v1.36.3" },
            "properties": [{ "name": "cluster.clusterset.k8s.io", "value": cluster }],
            "conditions": [healthy("ControlPlaneHealthy"), healthy("Joined")],
            "accessProviders": [{
                "name": "open-cluster-management",
                "cluster": {
                    "server": server,
                    "certificate-authority-data": STANDARD.encode(ca_pem),
                    "extensions": [{
                        "name": "client.authentication.k8s.io/exec",
                        "extension": { "clusterName": cluster },
                    }],
                },
            }],
        },
    })
}

/// Creates the profile or brings its status up to date.
pub fn put_profile(hub: &ControlPlane, namespace: &str, profile: &Value) -> Result<(), String> {
    let collection = format!("{PROFILES}/namespaces/{namespace}/clusterprofiles");
    hub.create(&collection, profile)?;
    let name = profile["metadata"]["name"].as_str().unwrap_or_default();
    let status = json!({ "status": profile["status"] });
    hub.request("PATCH", &format!("{collection}/{name}/status"), Some(&status)).map(|_| ())
}

fn healthy(kind: &str) -> Value {
    json!({ "type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" })
}

/// Lets a user read profiles and managed accounts everywhere, and the Secrets of the inventory; user
/// `viewer` may after [`Joined::join`].
pub fn allow_inventory(hub: &ControlPlane, user: &str) -> Result<(), String> {
    let rule =
        |group, resource| json!({ "apiGroups": [group], "resources": [resource], "verbs": ["get", "list"] });
    let everywhere = json!([
        rule("multicluster.x-k8s.io", "clusterprofiles"),
        rule("authentication.open-cluster-management.io", "managedserviceaccounts"),
    ]);
    allow(hub, None, user, "inventory", &everywhere)?;
    allow(hub, Some(INVENTORY), user, "inventory-secrets", &json!([rule("", "secrets")]))
}

/// Makes a role of these rules, in one namespace or for all, and binds a user to it.
pub fn allow(
    plane: &ControlPlane,
    namespace: Option<&str>,
    user: &str,
    role: &str,
    rules: &Value,
) -> Result<(), String> {
    let (kind, collection) = match namespace {
        Some(namespace) => ("Role", format!("{RBAC}/namespaces/{namespace}/roles")),
        None => ("ClusterRole", format!("{RBAC}/clusterroles")),
    };
    plane.create(&collection, &json!({ "metadata": { "name": role }, "rules": rules }))?;
    let subject = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user });
    bind(plane, namespace, &format!("{role}-{user}"), kind, role, &subject)
}

/// Binds a role to whoever `subject` is, in one namespace or everywhere.
pub fn bind(
    plane: &ControlPlane,
    namespace: Option<&str>,
    name: &str,
    kind: &str,
    role: &str,
    subject: &Value,
) -> Result<(), String> {
    let collection = match namespace {
        Some(namespace) => format!("{RBAC}/namespaces/{namespace}/rolebindings"),
        None => format!("{RBAC}/clusterrolebindings"),
    };
    let binding = json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role },
        "subjects": [subject],
    });
    plane.create(&collection, &binding).map(|_| ())
}
