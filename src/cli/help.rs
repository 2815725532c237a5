//! The help: commands in groups, examples, and only options that have an effect.

use std::fmt::Write;

use clap::{Arg, ArgAction, Command};

use super::examples::{self, Examples};
use super::failure::FailureKind;

/// Headings and the names of their commands, in the order in which they are printed.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Start here", &["login", "connect", "demo", "status", "open"]),
    ("Your account", &["whoami", "attach", "account", "usage", "consent", "pause", "machine", "profile"]),
    ("Events and proofs", &["activity", "session", "costs", "event", "verify", "receipt", "audit"]),
    ("Memory", &["search", "add", "import", "space", "key"]),
    ("Agents", &["agent", "disconnect", "hook", "otlp", "mcp"]),
    (
        "Run a server",
        &["serve", "check", "config", "doctor", "health", "top", "migrate", "backup", "keys", "admin", "openapi"],
    ),
    ("More", &["completions", "manual", "help"]),
];

/// Commands that read the configuration of a server.
const CONFIGURED: &[&str] =
    &["serve", "check", "config", "doctor", "health", "top", "migrate", "backup", "keys", "admin", "openapi", "demo"];

/// The option that they read, in their help.
const CONFIG: &str = "--config <FILE>  Configuration file [default: config.toml in the working folder, if it exists]";

/// Last lines of the help.
const HINTS: &str = "`attache serve` starts a server, `attache login` connects this computer to one.\n\
    `attache help COMMAND` shows options and examples, `attache help exit-codes` the exit codes.";

/// `program` with grouped commands and examples in its help.
pub fn laid_out(program: Command) -> Command {
    let mut program = with_examples(program).mut_subcommand("exit-codes", |command| command.after_help(exit_codes()));
    // Adds the command `help`, which is listed too. A built command must not be changed: clap refers to arguments by index.
    program.build();
    grouped(program)
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
fn grouped(program: Command) -> Command {
    let header = *program.get_styles().get_header();
    let literal = *program.get_styles().get_literal();
    let visible = program.get_subcommands().filter(|command| !command.is_hide_set());
    let width = visible.map(|command| command.get_name().len()).max().unwrap_or_default();
    let mut commands = String::new();
    for (heading, names) in GROUPS {
        let _ = writeln!(commands, "\n{header}{heading}:{header:#}");
        for command in names.iter().filter_map(|name| program.find_subcommand(name)) {
            let (name, about) = (command.get_name(), command.get_about().map(ToString::to_string).unwrap_or_default());
            let _ = writeln!(commands, "  {literal}{name:width$}{literal:#}  {about}");
        }
    }
    program.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{commands}\n{header}Options:{header:#}\n{{options}}\n\n{HINTS}"
    ))
}

/// Appends examples to the help of all commands.
pub fn with_examples(program: Command) -> Command {
    with_examples_below(program, "")
}

fn with_examples_below(command: Command, path: &str) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let command = names.iter().fold(command, |command, name| {
        let path = format!("{path} {name}");
        command.mut_subcommand(name, |command| with_examples_below(command, &path))
    });
    let Some(examples) = examples::ALL.iter().find(|examples| examples.command == path.trim()) else { return command };
    let header = *command.get_styles().get_header();
    let mut text = shown(examples, header);
    if path.split_whitespace().next().is_some_and(|first| CONFIGURED.contains(&first)) {
        let _ = write!(text, "\n\n{header}Configuration:{header:#}\n  {CONFIG}");
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;
    use crate::cli::Arguments;

    fn program() -> Command {
        laid_out(Arguments::command())
    }

    /// The words of every visible command that runs without a subcommand.
    fn leaves(command: &Command, path: &str) -> Vec<String> {
        let below = || command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help");
        let own = (below().next().is_none() || !command.is_subcommand_required_set()).then(|| path.trim().to_owned());
        let others = below().flat_map(|below| leaves(below, &format!("{path} {}", below.get_name())));
        own.into_iter().chain(others).collect()
    }

    /// The words of a line of a shell, as far as the examples use its syntax: quotes, comments, pipes and redirections.
    fn words(line: &str) -> Vec<Vec<String>> {
        let line = line.split(" # ").next().unwrap_or_default();
        let (mut commands, mut word, mut quote) = (vec![Vec::new()], None::<String>, None);
        for character in line.chars().chain([' ']) {
            match (character, quote) {
                (_, Some(open)) if character == open => quote = None,
                ('"' | '\'', None) => {
                    quote = Some(character);
                    word.get_or_insert_default();
                }
                (' ', None) => commands.last_mut().unwrap().extend(word.take()),
                ('|', None) => commands.push(Vec::new()),
                _ => word.get_or_insert_default().push(character),
            }
        }
        for command in &mut commands {
            let end = command.iter().position(|word| word == ">" || word == "<").unwrap_or(command.len());
            command.truncate(end);
        }
        commands.into_iter().filter(|command| command.first().is_some_and(|word| word == "attache")).collect()
    }

    #[test]
    fn every_visible_command_is_in_exactly_one_group() {
        let program = program();
        let visible = program.get_subcommands().filter(|command| !command.is_hide_set());
        let visible: BTreeSet<String> = visible.map(|command| command.get_name().to_owned()).collect();
        let grouped: Vec<String> = GROUPS.iter().flat_map(|(_, names)| *names).map(|name| (*name).to_owned()).collect();
        assert_eq!(grouped.len(), visible.len());
        assert_eq!(grouped.into_iter().collect::<BTreeSet<_>>(), visible);
    }

    #[test]
    fn every_command_has_examples_that_the_parser_accepts() {
        let program = program();
        let with_examples: BTreeSet<String> = examples::ALL.iter().map(|of| of.command.to_owned()).collect();
        assert_eq!(with_examples.len(), examples::ALL.len(), "a command is listed twice");
        assert_eq!(leaves(&program, "").into_iter().collect::<BTreeSet<_>>(), with_examples);
        for examples in examples::ALL {
            for line in examples.lines {
                let commands = words(line);
                assert!(!commands.is_empty(), "{line}");
                for command in commands {
                    let parsed = Arguments::command().try_get_matches_from(&command);
                    assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
                }
                let begin = format!("attache {}", examples.command);
                assert!(words(line).iter().any(|words| words.join(" ").starts_with(&begin)), "{line}");
            }
        }
    }

    #[test]
    fn no_client_command_shows_the_option_for_the_configuration_and_all_accept_it() {
        let program = program();
        let help = |path: &[&str]| {
            let command = path.iter().fold(&program, |command, name| command.find_subcommand(name).unwrap());
            command.clone().render_help().to_string().contains("--config")
        };
        assert!(help(&["serve"]) && help(&["admin", "account", "list"]));
        assert!(!help(&["attach"]) && !help(&["event", "send"]) && !help(&["search"]));
        let client = ["attache", "usage", "--config", "other.toml", "--json"];
        let matches = program.clone().try_get_matches_from(client).unwrap();
        let below = matches.subcommand_matches("usage").unwrap();
        assert_eq!(below.get_one::<std::path::PathBuf>("config"), Some(&"other.toml".into()));
        assert!(below.get_flag("json"));
    }

    #[test]
    fn the_help_of_the_first_commands_fits_a_screen() {
        let program = program();
        for name in ["login", "attach", "search", "add", "status", "whoami"] {
            let help = program.find_subcommand(name).unwrap().clone().term_width(80).render_help().to_string();
            assert!(help.lines().count() <= 45, "{name}: {} lines\n{help}", help.lines().count());
        }
    }
}
