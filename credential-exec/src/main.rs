//! The seam between the process and the library.

use std::process::ExitCode;

use credential_exec::env::Env;

/// musl's own allocator asks the system for memory five times in a run that needs 10 KiB.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let code = credential_exec::run(
        &args,
        &Env::real(),
        &mut credential_exec::os::stdout(),
        &mut std::io::stderr().lock(),
    );
    ExitCode::from(code)
}
