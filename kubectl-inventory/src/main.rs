//! Seam.
fn main() {}
