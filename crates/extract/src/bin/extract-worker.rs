//! The extraction process as a program, for this crate's tests. The server starts itself instead.

fn main() -> std::io::Result<()> {
    extract::worker::main(std::io::stdin(), std::io::stdout())
}
