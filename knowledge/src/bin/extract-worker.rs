//! The extraction process by itself, for the tests of this floor. The server starts itself instead.

fn main() -> std::io::Result<()> {
    knowledge::extract::worker::main(std::io::stdin(), std::io::stdout())
}
