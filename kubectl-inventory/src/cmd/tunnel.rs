//! `tunnel list|stop`: the background processes that lead to addresses within hubs.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use credential_exec::env::Env;
use credential_exec::error::{Error, Kind, Result};
use credential_exec::tunnel::control::{self, Ask, Status};
use credential_exec::tunnel::place;
use jiff::Timestamp;
use serde_json::json;

use crate::output::columns;
use crate::output::table::age;
use crate::term::not_written;

const PATIENCE: Duration = Duration::from_secs(3);

/// Prints the tunnels that run, as a table or as JSON.
///
/// # Errors
/// That of a closed output.
pub fn list(as_json: bool, env: &Env, out: &mut dyn Write, err: &mut dyn Write) -> Result<()> {
    let running = running(env);
    if as_json {
        let items: Vec<&Status> = running.iter().map(|(_, status)| status).collect();
        return writeln!(out, "{:#}", json!({ "items": items })).map_err(not_written);
    }
    if running.is_empty() {
        let _ = writeln!(err, "No tunnels are running.");
        return Ok(());
    }
    let now = Timestamp::try_from(env.clock()).unwrap_or_default();
    let rows: Vec<_> = running.iter().map(|(_, status)| row(status, now)).collect();
    let headers = ["HUB", "SERVICE", "PORT", "PID", "SINCE", "CONNECTIONS", "SENT", "RECEIVED", "IDLE LEFT"];
    columns::print(&headers, &rows, out).map_err(not_written)
}

/// Ends the tunnels to `hub` (a context or its server's URL), or all, and says how many it was.
///
/// # Errors
/// [`Kind::Usage`] without a choice among several; [`Kind::NotFound`], naming the hubs there are.
pub fn stop(hub: Option<&str>, all: bool, env: &Env, out: &mut dyn Write) -> Result<()> {
    let running = running(env);
    let hubs = || {
        let mut hubs: Vec<_> = running.iter().map(|(_, status)| status.hub.as_str()).collect();
        hubs.dedup();
        hubs.join(", ")
    };
    if hub.is_none() && !all && running.len() > 1 {
        return Err(Error::new(Kind::Usage, format!("tunnels to several hubs or Services run: {}", hubs()))
            .remedy("name a hub, or stop them with --all"));
    }
    let chosen: Vec<_> = running
        .iter()
        .filter(|(_, status)| hub.is_none_or(|hub| status.hub == hub || status.hub_server == hub))
        .collect();
    if let (Some(hub), true) = (hub, chosen.is_empty()) {
        let error = Error::new(Kind::NotFound, format!("no tunnel to {hub:?} is running"));
        return Err(if running.is_empty() { error } else { error.remedy(format!("there are {}", hubs())) });
    }
    for (socket, status) in &chosen {
        control::ask(socket, &Ask::Stop, PATIENCE).map_err(|error| {
            Error::new(Kind::Failed, format!("the tunnel of process {} does not stop: {error}", status.pid))
                .remedy(format!("end process {}", status.pid))
        })?;
    }
    let tunnels = if chosen.len() == 1 { "tunnel" } else { "tunnels" };
    writeln!(out, "stopped {} {tunnels}", chosen.len()).map_err(not_written)
}

/// The tunnels that answer.
fn running(env: &Env) -> Vec<(PathBuf, Status)> {
    let status = |socket: PathBuf| {
        let status = control::ask(&socket, &Ask::Status, PATIENCE).ok()?.status?;
        Some((socket, status))
    };
    place::sockets(env).into_iter().filter_map(status).collect()
}

fn row(status: &Status, now: Timestamp) -> Vec<String> {
    let ports: Vec<_> = status.ports.iter().map(u16::to_string).collect();
    let since = Timestamp::from_second(status.since).unwrap_or_default();
    vec![
        status.hub.clone(),
        status.service.clone(),
        if status.draining { "draining".to_owned() } else { ports.join(",") },
        status.pid.to_string(),
        age(since, now),
        status.connections.to_string(),
        size(status.sent_bytes),
        size(status.received_bytes),
        if status.connections > 0 { "in use".to_owned() } else { short(status.idle_left_seconds) },
    ]
}

/// Seconds in kubectl's short form.
fn short(seconds: u64) -> String {
    if seconds >= 120 { format!("{}m", seconds / 60) } else { format!("{seconds}s") }
}

/// Bytes as Kubernetes writes quantities.
fn size(bytes: u64) -> String {
    let units = [("Gi", 30), ("Mi", 20), ("Ki", 10)];
    match units.into_iter().find(|(_, power)| bytes >> power > 9) {
        Some((unit, power)) => format!("{}{unit}", bytes >> power),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_tells_what_is_used_and_what_is_left() {
        let status = Status {
            hub: "hub".into(),
            service: "ns/name:9092".into(),
            ports: vec![20_001, 20_002],
            pid: 7,
            since: 100,
            sent_bytes: 9_000,
            received_bytes: 50 << 20,
            idle_left_seconds: 899,
            ..Status::default()
        };
        let now = Timestamp::from_second(400).unwrap();
        assert_eq!(row(&status, now).join(" "), "hub ns/name:9092 20001,20002 7 5m 0 9000 50Mi 14m");
        let busy = Status { connections: 2, draining: true, ..status };
        assert_eq!(row(&busy, now).join(" "), "hub ns/name:9092 draining 7 5m 2 9000 50Mi in use");
    }
}
