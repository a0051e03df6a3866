//! Which kind of inventory a hub serves, by its discovery documents.

use credential_exec::error::{Error, Kind, Result};
use credential_exec::hub::Client;
use serde::Deserialize;

use crate::inventory::Origin;
use crate::inventory::origin::{Api, CapiVersion};

#[derive(Deserialize)]
struct GroupList {
    groups: Option<Vec<Group>>,
}

#[derive(Deserialize)]
struct Group {
    name: String,
    versions: Option<Vec<Version>>,
}

#[derive(Deserialize)]
struct Version {
    version: String,
}

impl Group {
    fn serves(&self, version: &str) -> bool {
        self.versions.iter().flatten().any(|served| served.version == version)
    }
}

#[derive(Deserialize)]
struct ResourceList {
    resources: Option<Vec<Resource>>,
}

#[derive(Deserialize)]
struct Resource {
    name: String,
}

/// What the hub serves instead of `asked`, which failed so and is not what the person `wanted`: the failure
/// itself where it has another reason, or nothing else is served.
///
/// # Errors
/// `failure`; those of the hub.
pub async fn instead(
    client: &Client,
    wanted: Option<Origin>,
    asked: Origin,
    failure: Error,
) -> Result<Origin> {
    if wanted.is_some() || failure.kind != Kind::NotFound || asked != Origin::ClusterProfile {
        return Err(failure);
    }
    let groups = groups(client).await?;
    for origin in [Origin::ClusterProfile, Origin::ManagedCluster, Origin::Capi(CapiVersion::V1Beta2)] {
        let Some(group) = groups.iter().find(|group| group.name == origin.api().group) else { continue };
        let origin = newest(origin, group);
        if group.serves(origin.api().version) && serves(client, origin.api()).await? {
            return if origin == asked { Err(failure) } else { Ok(origin) };
        }
    }
    let cause =
        failure.cause.replace("ClusterProfiles", "ClusterProfiles, ManagedClusters or Cluster API clusters");
    Err(Error { cause, ..failure })
}

/// The kind to ask for first: what the person `wanted`, in the version that the hub serves, else
/// ClusterProfiles.
///
/// # Errors
/// Those of the hub.
pub async fn first(client: &Client, wanted: Option<Origin>) -> Result<Origin> {
    let wanted = wanted.unwrap_or(Origin::ClusterProfile);
    let Origin::Capi(_) = wanted else { return Ok(wanted) };
    let groups = groups(client).await?;
    Ok(groups
        .iter()
        .find(|group| group.name == wanted.api().group)
        .map_or(wanted, |group| newest(wanted, group)))
}

/// Whether the hub passes requests on to clusters by cluster-gateway.
///
/// # Errors
/// Those of the hub.
pub async fn has_gateway(client: &Client) -> Result<bool> {
    Ok(groups(client).await?.iter().any(|group| group.name == crate::access::gateway::GROUP))
}

fn newest(origin: Origin, group: &Group) -> Origin {
    match origin {
        Origin::Capi(_) if !group.serves("v1beta2") => Origin::Capi(CapiVersion::V1Beta1),
        Origin::Capi(_) => Origin::Capi(CapiVersion::V1Beta2),
        other => other,
    }
}

async fn groups(client: &Client) -> Result<Vec<Group>> {
    let answer = client.get("/apis", None).await?;
    Ok(answer.json::<GroupList>("the list of APIs")?.groups.unwrap_or_default())
}

/// Whether the hub serves this kind; a group may be there for others alone.
///
/// # Errors
/// Those of the hub, which may not let everybody know.
pub async fn serves(client: &Client, api: &Api) -> Result<bool> {
    let answer = client.get(&api.path(), None).await?;
    if answer.status == http::StatusCode::NOT_FOUND {
        return Ok(false);
    }
    let list = answer.json::<ResourceList>("the list of kinds")?;
    Ok(list.resources.iter().flatten().any(|resource| resource.name == api.plural))
}
