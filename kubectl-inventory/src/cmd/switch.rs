//! `use -` and `use --hub`: contexts that exist already.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use credential_exec::error::{Error, Kind, Result};
use credential_exec::hub::Kubeconfig;

use crate::kubeconfig_file::edit;

/// Goes back to the context before the last switch.
///
/// # Errors
/// [`Kind::NotFound`] when there is none, or it is not in the kubeconfig any more.
pub fn back(paths: &[PathBuf], path: &Path, now: SystemTime, out: &mut dyn Write) -> Result<()> {
    let config = Kubeconfig::load(paths)?;
    let (old, new) = edit(path, now, |document| {
        let previous = document.previous().map(str::to_owned).ok_or_else(|| {
            Error::new(Kind::NotFound, format!("{} remembers no context before this one", path.display()))
                .remedy("`kubectl inventory use NAME` remembers it")
        })?;
        if config.context(&previous).is_none() {
            let cause = format!("the context before this one, {previous}, is not in the kubeconfig any more");
            return Err(
                Error::new(Kind::NotFound, cause).remedy("`kubectl config use-context NAME` chooses another")
            );
        }
        Ok((document.switch(config.current_context.as_deref(), &previous), previous))
    })?;
    say(old.as_deref(), &new, out);
    Ok(())
}

/// Switches to a hub's context.
///
/// # Errors
/// [`Kind::NotFound`] when no kubeconfig file of this shell has the context.
pub fn hub(
    context: &str,
    paths: &[PathBuf],
    path: &Path,
    now: SystemTime,
    out: &mut dyn Write,
) -> Result<()> {
    let config = Kubeconfig::load(paths)?;
    if config.context(context).is_none() {
        return Err(Error::new(
            Kind::NotFound,
            format!("the hub's context {context} is not in this kubeconfig"),
        )
        .remedy("add the hub's own kubeconfig file to $KUBECONFIG"));
    }
    let elsewhere = config.current_context.as_deref();
    let old = edit(path, now, |document| Ok(document.switch(elsewhere, context)))?;
    say(old.as_deref(), context, out);
    Ok(())
}

/// Says which context kubectl used, and which it uses from now on.
pub fn say(old: Option<&str>, new: &str, out: &mut dyn Write) {
    use credential_exec::error::printable;
    let (old, new) = (printable(old.unwrap_or("(none)")), printable(new));
    let _ =
        if old == new { writeln!(out, "context {new}") } else { writeln!(out, "context {old} → {new}") };
}
