//! The help: commands in groups, examples, and only options that have an effect.

use std::fmt::Write;

use clap::{Arg, ArgAction, Command};

use crate::examples::{self, Examples};
use crate::failure::FailureKind;

/// Headings and the names of their commands.
type Groups = &'static [(&'static str, &'static [&'static str])];

/// Groups of the client's commands, in the order in which they are printed.
pub const GROUPS: Groups = &[
    ("Start here", &["login", "connect", "demo", "status", "open"]),
    ("Your account", &["whoami", "attach", "account", "usage", "consent", "pause", "machine", "profile"]),
    ("Events and proofs", &["activity", "session", "costs", "event", "verify", "receipt", "audit"]),
    ("Memory", &["search", "add", "import", "space", "key"]),
    ("Agents", &["agent", "disconnect", "hook", "otlp", "mcp"]),
];

/// The last group.
pub const MORE: (&str, &[&str]) = ("More", &["completions", "manual", "help"]);

/// Additions of a program to the help of the client's commands.
#[derive(Debug, Clone, Copy)]
pub struct Additions {
    /// Groups of further commands.
    pub groups: Groups,
    /// Examples of further commands.
    pub examples: &'static [Examples],
    /// The option of these commands that names the configuration.
    pub configuration: &'static str,
    /// The first line below the options of the whole program.
    pub hint: &'static str,
}

impl Default for Additions {
    fn default() -> Self {
        let hint = "`attache login` connects this computer to a server.";
        Self { groups: &[], examples: &[], configuration: "", hint }
    }
}

/// Further last lines.
const HINTS: &str = "`attache help COMMAND` shows options and examples, `attache help exit-codes` the exit codes.";

/// `program` with grouped commands and examples in its help.
pub fn laid_out(program: Command, additions: &Additions) -> Command {
    let mut program =
        with_examples(program, additions).mut_subcommand("exit-codes", |command| command.after_help(exit_codes()));
    // Adds the command `help`, which is listed too. A built command must not be changed: clap refers to arguments by index.
    program.build();
    grouped(program, additions)
}

/// Exit codes, one per line.
pub fn exit_codes() -> String {
    let mut text = format!("{:>3}  success", 0);
    for kind in FailureKind::ALL {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n{:>3}  {}", kind.exit_code(), kind.meaning());
    }
    text.push_str(
        "\n\nWith --json a failure is a JSON object, the last line of standard error, with the members error (a code), message,\n\
         status (of the HTTP response, or null), retryable, exit_code, and retry_after (seconds) if the server names it.",
    );
    text
}

/// `program` with a help text that lists its commands in groups; clap itself has no groups of commands.
fn grouped(program: Command, additions: &Additions) -> Command {
    let header = *program.get_styles().get_header();
    let literal = *program.get_styles().get_literal();
    let visible = program.get_subcommands().filter(|command| !command.is_hide_set());
    let width = visible.map(|command| command.get_name().len()).max().unwrap_or_default();
    let mut commands = String::new();
    for (heading, names) in GROUPS.iter().chain(additions.groups).chain([&MORE]) {
        let _ = writeln!(commands, "\n{header}{heading}:{header:#}");
        for command in names.iter().filter_map(|name| program.find_subcommand(name)) {
            let (name, about) = (command.get_name(), command.get_about().map(ToString::to_string).unwrap_or_default());
            let _ = writeln!(commands, "  {literal}{name:width$}{literal:#}  {about}");
        }
    }
    program.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{commands}\n{header}Options:{header:#}\n{{options}}\n\n{}\n{HINTS}",
        additions.hint
    ))
}

/// Appends examples to the help of all commands.
pub fn with_examples(program: Command, additions: &Additions) -> Command {
    with_examples_below(program, "", additions)
}

fn with_examples_below(command: Command, path: &str, additions: &Additions) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let command = names.iter().fold(command, |command, name| {
        let path = format!("{path} {name}");
        command.mut_subcommand(name, |command| with_examples_below(command, &path, additions))
    });
    let is_it = |examples: &&Examples| examples.command == path.trim();
    let added = additions.examples.iter().find(is_it);
    let Some(examples) = added.or_else(|| examples::ALL.iter().find(is_it)) else { return command };
    let header = *command.get_styles().get_header();
    let mut text = shown(examples, header);
    if added.is_some() {
        let _ = write!(text, "\n\n{header}Configuration:{header:#}\n  {}", additions.configuration);
    }
    let command = command.after_help(text);
    // Without longer texts, the long help only differs by empty lines.
    if command.get_long_about().is_some() {
        return command;
    }
    let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort).help("Print help");
    command.disable_help_flag(true).arg(help)
}

fn shown(Examples { lines, note, .. }: &Examples, header: clap::builder::styling::Style) -> String {
    let mut text = format!("{header}Examples:{header:#}");
    for line in *lines {
        let _ = write!(text, "\n  {line}");
    }
    if !note.is_empty() {
        let _ = write!(text, "\n\n{note}");
    }
    text
}
