//! The seam between the process and the library.

use std::io::IsTerminal;
use std::process::ExitCode;

use credential_exec::env::Env;

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let on_terminal = std::io::stdout().is_terminal();
    let code = kubectl_inventory::run(&args, &Env::real(), on_terminal, &mut std::io::stderr().lock());
    ExitCode::from(code)
}
