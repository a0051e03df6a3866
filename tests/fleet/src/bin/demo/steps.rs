//! What is shown, in order, and the shell to play in.

use std::io;
use std::process::Stdio;

use crate::sealed::Sealed;
use crate::{direct, say};

/// Shows everything; the first step that fails ends it.
pub(crate) async fn show(sealed: &Sealed) -> io::Result<()> {
    if !sealed.has_kubectl() {
        say(
            "there is no kubectl on PATH: the plugin is called by its own name, and the clusters are read\n\
             through the same kubeconfig with the Rust client `kube`\n",
        )?;
    }
    inventory(sealed, &["get"]).await?;
    inventory(sealed, &["use", "cluster1"]).await?;
    read(sealed, &["get", "namespaces"]).await?;
    read(sealed, &["get", "pods", "-A"]).await?;
    inventory(sealed, &["use", "cluster2"]).await?;
    read(sealed, &["get", "nodes"]).await?;
    inventory(sealed, &["use", "-"]).await?;
    inventory(sealed, &["tunnel", "list"]).await?;
    inventory(sealed, &["describe", "cluster1"]).await?;
    say("\ndone; `cargo demo -- --shell` gives you a shell with this fleet\n")
}

/// The person's shell in the demo's environment; its exit code.
pub(crate) async fn shell(sealed: &Sealed) -> io::Result<u8> {
    let plugin = sealed.plugin().join(" ");
    say(&format!(
        "\nKUBECONFIG, HOME and PATH are the demo's own here; `exit` stops the clusters. Try:\n  \
         {plugin} get\n  {plugin} use cluster1\n  kubectl get pods -A\n  {plugin} use -\n\n"
    ))?;
    let shell = std::env::var_os("SHELL").unwrap_or_else(|| if cfg!(windows) { "cmd" } else { "sh" }.into());
    let status = sealed.command(shell).status().await?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

async fn inventory(sealed: &Sealed, args: &[&str]) -> io::Result<()> {
    run(sealed, &[&sealed.plugin(), args].concat()).await
}

async fn read(sealed: &Sealed, args: &[&str]) -> io::Result<()> {
    if sealed.has_kubectl() {
        return run(sealed, &[&["kubectl"], args].concat()).await;
    }
    direct::read(sealed, args).await
}

async fn run(sealed: &Sealed, line: &[&str]) -> io::Result<()> {
    say(&format!("\n$ {}\n", line.join(" ")))?;
    let status = sealed.command(line[0]).args(&line[1..]).stdin(Stdio::null()).status().await;
    let status = status.map_err(|error| io::Error::other(format!("cannot run {}: {error}", line[0])))?;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other(format!("`{}` failed: {status}", line.join(" "))))
    }
}
