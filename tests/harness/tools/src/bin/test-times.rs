//! `test-times COMMAND ARGUMENTS…`: runs nextest, and prints the slowest tests and the time of each binary before its summary, which
//! remains the end of the output. Exits with nextest's code.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::process::{Command, ExitCode, Stdio};
use std::{env, fmt};

const SLOWEST: usize = 20;

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    match run(&arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("test-times: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[std::ffi::OsString]) -> io::Result<ExitCode> {
    let (program, arguments) =
        arguments.split_first().ok_or_else(|| io::Error::other("usage: test-times COMMAND ARGUMENTS…"))?;
    let mut command = Command::new(program);
    command.args(arguments).stderr(Stdio::piped());
    if io::stderr().is_terminal() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    let mut child = command.spawn()?;
    if let Some(output) = child.stderr.take() {
        relay(&mut BufReader::new(output), &mut io::stderr())?;
    }
    let code = child.wait()?.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Copies the output, and inserts the times before the summary.
fn relay(from: &mut impl BufRead, to: &mut impl Write) -> io::Result<()> {
    let mut times = Times::default();
    // A horizontal rule, possibly the rule above the summary; then the summary and the lines after it.
    let mut held = Vec::new();
    let mut is_summary = false;
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        let text = plain(&String::from_utf8_lossy(&line));
        is_summary |= text.starts_with("Summary [");
        let is_rule = !text.is_empty() && text.chars().all(|character| character == '─');
        if !is_summary && !held.is_empty() {
            to.write_all(&std::mem::take(&mut held))?;
        }
        if is_summary || is_rule {
            held.append(&mut line);
            continue;
        }
        times.extend(finished(&text));
        to.write_all(&line)?;
        line.clear();
    }
    if is_summary {
        write!(to, "{times}")?;
    }
    to.write_all(&held)
}

/// A line without colours, and without spaces at its ends.
fn plain(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str(part.split_once('m').map_or("", |(_, rest)| rest));
    }
    text.trim().to_owned()
}

/// A test that has ended: `PASS [   0.008s] (   1/2687) attache::api events::a_new_epoch_closes_the_one_before`.
fn finished(line: &str) -> Option<Test> {
    let (status, rest) = line.split_once(" [")?;
    if status.is_empty() || !status.chars().all(|character| character.is_ascii_uppercase() || character == '-') {
        return None;
    }
    let (seconds, rest) = rest.split_once("s]")?;
    let seconds = seconds.trim().parse().ok()?;
    let rest = rest.trim_start();
    let name = rest.strip_prefix('(').map_or(Some(rest), |counted| Some(counted.split_once(") ")?.1))?;
    let (binary, _) = name.split_once(' ')?;
    Some(Test { seconds, binary: binary.to_owned(), name: name.to_owned() })
}

#[derive(Debug)]
struct Test {
    seconds: f64,
    binary: String,
    /// The binary and the path of the function.
    name: String,
}

#[derive(Debug, Default)]
struct Times(Vec<Test>);

impl Extend<Test> for Times {
    fn extend<T: IntoIterator<Item = Test>>(&mut self, tests: T) {
        self.0.extend(tests);
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut binaries: BTreeMap<&str, (f64, usize)> = BTreeMap::new();
        for test in &self.0 {
            let (seconds, tests) = binaries.entry(&test.binary).or_default();
            *seconds += test.seconds;
            *tests += 1;
        }
        let mut binaries: Vec<_> = binaries.into_iter().collect();
        binaries.sort_by(|(_, (one, _)), (_, (two, _))| two.total_cmp(one));
        writeln!(f, "Seconds of the tests of each binary, and their number:")?;
        for (binary, (seconds, tests)) in binaries {
            writeln!(f, "{seconds:9.1} {tests:5}  {binary}")?;
        }
        let mut tests: Vec<&Test> = self.0.iter().collect();
        tests.sort_by(|one, two| two.seconds.total_cmp(&one.seconds));
        writeln!(f, "Seconds of the slowest tests:")?;
        tests.iter().take(SLOWEST).try_for_each(|test| writeln!(f, "{:9.1}  {}", test.seconds, test.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relayed(output: &str) -> String {
        let mut to = Vec::new();
        relay(&mut output.as_bytes(), &mut to).unwrap();
        String::from_utf8(to).unwrap()
    }

    #[test]
    fn times_are_printed_before_the_summary() {
        let output = "
    Starting 3 tests across 2 binaries
        SLOW [> 30.000s] (─────────) one::suite slow
  SETUP PASS [   1.000s] (1/1) postgres-cluster: cargo run
        PASS [  31.200s] (   1/3) one::suite slow
\u{1b}[32;1m        PASS\u{1b}[0m [   0.125s] (   2/3) \u{1b}[35;1mtwo\u{1b}[0m quick
        FAIL [   2.000s] (   3/3) one::suite wrong
────────────
a rule of a test
────────────
     Summary [  33.000s] 3 tests run: 2 passed, 1 failed, 0 skipped
        FAIL [   2.000s] (   3/3) one::suite wrong
error: test run failed
";
        let times = "\
Seconds of the tests of each binary, and their number:
     33.2     2  one::suite
      0.1     1  two
Seconds of the slowest tests:
     31.2  one::suite slow
      2.0  one::suite wrong
      0.1  two quick
";
        let (before, summary) = output.split_at(output.rfind("────────────\n     Summary").unwrap());
        assert_eq!(relayed(output), format!("{before}{times}{summary}"));
    }

    #[test]
    fn an_output_without_a_summary_is_not_changed() {
        let output = "    Compiling one\n────────────\nerror: could not compile `one`";
        assert_eq!(relayed(output), output);
    }
}
