//! `cargo demo`: a hub and three spokes on this machine, laid out as OCM does it, and what a person types
//! against them.
//! `cargo demo -- --shell`: the same fleet, and a shell to play in.

mod build;
mod direct;
mod sealed;
mod steps;

use std::io::{self, Write as _};
use std::process::ExitCode;

use fleet::Fleet;
use sealed::Sealed;
use tokio::signal;

const USAGE: &str = "usage: cargo demo [-- --shell]\n";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let shell = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--shell"] => true,
        _ => {
            let _ = io::stderr().write_all(USAGE.as_bytes());
            return ExitCode::from(2);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = runtime.and_then(|runtime| runtime.block_on(demo(shell)));
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let _ = writeln!(io::stderr(), "demo: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Everything lives in here, so that leaving it in any way cleans up.
async fn demo(shell: bool) -> io::Result<u8> {
    let work = async {
        let binaries = build::binaries().await?;
        let fleet = Fleet::builder().spokes(3).tunnelled().start();
        let sealed = Sealed::new(&fleet, &binaries)?;
        say(&format!(
            "started a hub on {} and 3 clusters that can be reached only from within it\n",
            fleet.hub().url()
        ))?;
        if shell { steps::shell(&sealed).await } else { steps::show(&sealed).await.map(|()| 0) }
    };
    tokio::select! {
        result = work => result,
        signal = stopped(shell) => {
            signal?;
            say("\nstopped\n")?;
            Ok(130)
        }
    }
}

/// Waits for Ctrl-C or a termination. A shell has its own idea of Ctrl-C, so there it is ignored.
async fn stopped(shell: bool) -> io::Result<()> {
    #[cfg(unix)]
    {
        let mut terminate = signal::unix::signal(signal::unix::SignalKind::terminate())?;
        loop {
            tokio::select! {
                _ = terminate.recv() => return Ok(()),
                pressed = signal::ctrl_c() => {
                    pressed?;
                    if !shell {
                        return Ok(());
                    }
                }
            }
        }
    }
    #[cfg(not(unix))]
    loop {
        signal::ctrl_c().await?;
        if !shell {
            return Ok(());
        }
    }
}

/// Writes to stdout at once.
fn say(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
