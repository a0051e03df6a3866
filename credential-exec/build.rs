//! Hands `warm.ld` to the linker, which says what it is good for.

fn main() {
    println!("cargo::rerun-if-changed=warm.ld");
    let var = |name| std::env::var(name).unwrap_or_default();
    if var("TARGET") == "x86_64-unknown-linux-musl" {
        println!("cargo::rustc-link-arg-bins=-T{}/warm.ld", var("CARGO_MANIFEST_DIR"));
    }
}
