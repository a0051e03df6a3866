//! Reads a cluster without kubectl: kube's client, through the current context of the kubeconfig.

use std::fmt::{Debug, Write as _};
use std::io;

use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::say;
use crate::sealed::Sealed;

/// `get namespaces|pods|nodes`, by name only.
pub(crate) async fn read(sealed: &Sealed, args: &[&str]) -> io::Result<()> {
    let what = args.get(1).copied().unwrap_or_default();
    say(&format!("\n# kube client: list {what}\n"))?;
    let client = client(sealed).await?;
    let table = match what {
        "namespaces" => list::<Namespace>(client).await,
        "nodes" => list::<Node>(client).await,
        "pods" => list::<Pod>(client).await,
        other => return Err(io::Error::other(format!("the demo cannot list {other}"))),
    };
    say(&table.map_err(io::Error::other)?)
}

async fn client(sealed: &Sealed) -> io::Result<Client> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(sealed.kubeconfig()).map_err(io::Error::other)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Client::try_from(config.map_err(io::Error::other)?).map_err(io::Error::other)
}

async fn list<K>(client: Client) -> kube::Result<String>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let objects = Api::<K>::all(client).list(&ListParams::default()).await?;
    let mut table = String::from("NAMESPACE            NAME\n");
    for object in objects {
        let _ = writeln!(table, "{:<20} {}", object.namespace().unwrap_or_default(), object.name_any());
    }
    Ok(table)
}
