//! A recording of a terminal as an animated SVG: the real output of real commands. Only the times between the lines are artificial, so that
//! a person can follow.

use std::fmt::Write;
use std::process::Command;

use blackbox::site::Site;

/// Width of the terminal, in characters.
const COLUMNS: usize = 96;
/// Lines that are visible at once.
const ROWS: usize = 24;
/// Size of a character and of a line, in units of the picture.
const CHARACTER: f64 = 8.0;
const LINE: f64 = 19.0;
/// Space around the text; above it is the bar of the window.
const MARGIN: f64 = 18.0;
const BAR: f64 = 34.0;

/// Separates the output of the two terminals.
const MARK: char = '\u{1e}';

/// Runs the server and the tour in a terminal; returns the picture.
pub async fn record() -> String {
    let (site, address) = Site::start().await;
    let text = "An auditor follows a few hashes from a leaf up to the signed root, and needs none of the other leaves.";
    site.put("merkle.html", format!("<title>Merkle trees</title><p>{text}</p>"));
    let page = format!("http://{address}/merkle.html");
    let output = tokio::task::spawn_blocking(move || run(&page, address.port())).await.unwrap();
    let (start, tour) = output.split_once(MARK).unwrap();
    let shown = [
        ("target/release/attache serve", start),
        ("target/release/attache demo --auto --page http://127.0.0.1:8000/merkle.html", tour),
    ];
    picture(&shown.map(|(command, output)| Scene { command, lines: lines(output) }))
}

/// The output of both commands in a terminal. Bars and spinners go to standard error, which is not shown.
fn run(page: &str, site: u16) -> String {
    let folder = tempfile::tempdir().unwrap();
    let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let (bind, admin) = (free(), free());
    let program = env!("CARGO_BIN_EXE_attache");
    let script = format!(
        "stty cols {COLUMNS}; '{program}' serve 2>/dev/null & server=$!\n\
         until curl -sf http://{bind}/llms.txt > /dev/null; do sleep 0.1; done; sleep 0.5; printf '\\036'\n\
         '{program}' demo --auto --page {page} 2>/dev/null\nkill $server; wait $server"
    );
    let mut command = Command::new("script");
    command.args(["-qfec", &script, "/dev/null"]).current_dir(folder.path()).env("HOME", folder.path());
    command
        .env("SHELL", "/bin/bash")
        .env("TERM", "xterm-256color")
        .env_remove("NO_COLOR")
        .env_remove("XDG_CONFIG_HOME");
    command.env("ATTACHE_HTTP__BIND", &bind).env("ATTACHE_ADMIN__BIND", &admin);
    command.env("ATTACHE_KNOWLEDGE__FETCH__ALLOW_PRIVATE", r#"["127.0.0.1/32"]"#);
    command.env("ATTACHE_KNOWLEDGE__FETCH__PORTS", format!("[{site}]"));
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("cleaned up"), "{text}");
    // The addresses and the place of a newcomer.
    let text = text.replace(&bind, "127.0.0.1:8080").replace(&admin, "127.0.0.1:8081");
    text.replace(&format!("127.0.0.1:{site}"), "127.0.0.1:8000").replace(program, "target/release/attache")
}

struct Scene<'c> {
    command: &'c str,
    lines: Vec<Vec<Run>>,
}

/// Text in one style: classes of the picture.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Run {
    class: String,
    text: String,
}

/// The lines of an output, wrapped as the terminal does.
fn lines(output: &str) -> Vec<Vec<Run>> {
    let (mut lines, mut line, mut class, mut column) = (Vec::new(), Vec::<Run>::new(), String::new(), 0);
    let mut letters = output.trim_matches(['\r', '\n']).chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' => {
                // A control sequence ends with a letter.
                let mut sequence = String::new();
                while !sequence.ends_with(|letter: char| letter.is_ascii_alphabetic()) {
                    let Some(letter) = letters.next() else { break };
                    sequence.push(letter);
                }
                if let Some(codes) = sequence.strip_prefix('[').and_then(|rest| rest.strip_suffix('m')) {
                    codes.split(';').for_each(|code| restyle(&mut class, code));
                }
                continue;
            }
            '\r' => continue,
            '\n' => {
                lines.push(std::mem::take(&mut line));
                column = 0;
                continue;
            }
            _ if column == COLUMNS => {
                lines.push(std::mem::take(&mut line));
                column = 0;
            }
            _ => {}
        }
        column += 1;
        match line.last_mut().filter(|run| run.class == class) {
            Some(run) => run.text.push(letter),
            None => line.push(Run { class: class.clone(), text: letter.into() }),
        }
    }
    lines.push(line);
    lines
}

fn restyle(class: &mut String, code: &str) {
    let name = match code {
        "" | "0" => return class.clear(),
        "1" => "b",
        "2" => "f",
        "31" => "r",
        "32" => "g",
        "33" => "y",
        _ => return,
    };
    if !class.is_empty() {
        class.push(' ');
    }
    class.push_str(name);
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Draws the scenes, one below the other, in a window that scrolls.
fn picture(scenes: &[Scene<'_>]) -> String {
    let (mut time, mut row, mut body, mut scrolls) = (0.8, 0_usize, String::new(), String::new());
    let mut moves: Vec<(f64, usize)> = Vec::new();
    for (nth, scene) in scenes.iter().enumerate() {
        if nth > 0 {
            row += 1;
        }
        let typed = scene.command.chars().count();
        let takes = f64::from(u32::try_from(typed).unwrap()) * 0.035;
        let y = top(row);
        let command = escaped(scene.command);
        let _ = write!(
            body,
            "<text class=\"l\" y=\"{y}\" style=\"animation-delay:{time:.2}s\"><tspan class=\"g\">$</tspan></text>\
             <text class=\"t\" x=\"{:.0}\" y=\"{y}\" style=\"animation-duration:{takes:.2}s;animation-delay:{time:.2}s;animation-timing-function:steps({typed})\">{command}</text>",
            MARGIN + 2.0 * CHARACTER
        );
        moves.push((time, row));
        row += 1;
        time += takes + 0.7;
        for line in &scene.lines {
            let is_heading = line
                .first()
                .is_some_and(|run| run.class == "b" && run.text.starts_with(|letter: char| letter.is_ascii_digit()));
            if is_heading {
                time += 0.9;
            }
            let y = top(row);
            let runs = line.iter().fold(String::new(), |mut runs, Run { class, text }| {
                let text = escaped(text);
                let _ = if class.is_empty() {
                    write!(runs, "{text}")
                } else {
                    write!(runs, "<tspan class=\"{class}\">{text}</tspan>")
                };
                runs
            });
            if !runs.is_empty() {
                let _ =
                    writeln!(body, "<text class=\"l\" y=\"{y}\" style=\"animation-delay:{time:.2}s\">{runs}</text>");
            }
            moves.push((time, row));
            row += 1;
            time += 0.16;
        }
        time += 1.6;
    }
    let end = time;
    let mut last = 0;
    for (at, row) in moves {
        let above = (row + 1).saturating_sub(ROWS);
        if above > last {
            last = above;
            let _ = write!(scrolls, "{:.2}%{{transform:translateY(-{:.0}px)}}", at / end * 100.0, above_px(above));
        }
    }
    let (width, height) =
        (cells(COLUMNS).mul_add(CHARACTER, 2.0 * MARGIN), cells(ROWS).mul_add(LINE, 2.0 * MARGIN) + BAR);
    // Without the descenders of the line above.
    let (final_shift, text) = (above_px(last), height - BAR - MARGIN / 2.0);
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {height:.0}" role="img" aria-labelledby="title" font-family="ui-monospace, 'SF Mono', 'Cascadia Mono', 'DejaVu Sans Mono', monospace" font-size="13.3">
<title id="title">A terminal: the server starts, and the tour registers an agent and a computer, records events, verifies a proof and searches</title>
<style>
.w{{fill:#fbfaf7;stroke:#c9ccc8}} .d{{fill:#c9ccc8}} text{{fill:#1c1f1e;white-space:pre}} .l,.t{{opacity:0;animation:s 1ms linear forwards}}
.t{{opacity:1;clip-path:inset(0 100% 0 0);animation-name:t}} .b{{font-weight:700}} .f{{fill:#5c6360}} .g{{fill:#0d6259;font-weight:700}} .y{{fill:#7a5200}} .r{{fill:#a3271c}}
.m{{animation:m {end:.2}s step-end forwards}}
@keyframes s{{to{{opacity:1}}}} @keyframes t{{to{{clip-path:inset(0 0 0 0)}}}} @keyframes m{{{scrolls}100%{{transform:translateY(-{final_shift:.0}px)}}}}
@media (prefers-color-scheme: dark){{.w{{fill:#141716;stroke:#444c49}} .d{{fill:#444c49}} text{{fill:#eceeec}} .f{{fill:#a9b1ae}} .g{{fill:#7fd6c8}} .y{{fill:#f0c674}} .r{{fill:#ff9e92}}}}
@media (prefers-reduced-motion: reduce){{.l,.t,.m{{animation-duration:1ms!important;animation-delay:0s!important}}}}
</style>
<rect class="w" x="0.5" y="0.5" width="{:.0}" height="{:.0}" rx="10"/>
<circle class="d" cx="20" cy="17" r="5.5"/><circle class="d" cx="38" cy="17" r="5.5"/><circle class="d" cx="56" cy="17" r="5.5"/>
<svg x="0" y="{BAR:.0}" width="{width:.0}" height="{text:.0}" viewBox="0 6 {width:.0} {text:.0}" overflow="hidden"><g class="m" xml:space="preserve">
{body}</g></svg>
</svg>
"#,
        width - 1.0,
        height - 1.0,
    )
    .replace("<text class=\"l\" y=", &format!("<text class=\"l\" x=\"{MARGIN:.0}\" y="))
}

fn cells(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap())
}

fn top(row: usize) -> String {
    format!("{:.0}", cells(row + 1) * LINE)
}

fn above_px(rows: usize) -> f64 {
    cells(rows) * LINE
}

#[test]
fn output_is_wrapped_and_keeps_its_styles() {
    let plain = |text: &str| Run { class: String::new(), text: text.into() };
    let strong = |text: &str| Run { class: "b".into(), text: text.into() };
    assert_eq!(
        lines("a \u{1b}[1mb\u{1b}[0m c\r\nd\n"),
        [vec![plain("a "), strong("b"), plain(" c")], vec![plain("d")]]
    );
    let long = "x".repeat(COLUMNS + 1);
    assert_eq!(lines(&long), [vec![plain(&long[1..])], vec![plain("x")]]);
    assert_eq!(lines("\u{1b}[?25lhidden"), [vec![plain("hidden")]]);
}
