//! The command line: one binary, one file per command (`docs/decisions/0019-one-binary.md`).
//!
//! The commands of the client are the crate `commands`; this module adds the commands of the server and of its operator.

mod acts;
mod admin;
mod backup;
mod check;
mod configuration;
pub mod demo;
mod doctor;
mod examples;
mod hangup;
mod main_database;
mod migrate;
mod openapi;
mod operator_client;
mod serve;
mod service_manager;
mod signing_keys;
mod start_screen;
mod tap;
mod top;

use std::path::PathBuf;
use std::process::ExitCode;

use app::config::reading::load_layers;
use clap::{CommandFactory, Parser, Subcommand};
use commands::client;
use commands::failure::{Failure, FailureKind};
use commands::help::Additions;
use commands::program::{self, Invocation, run};

/// Accounts, consent and provable events for agents: server, operator's tools and client.
#[derive(Debug, Parser)]
#[command(name = "attache", version, max_term_width = 100, arg_required_else_help = true)]
struct Arguments {
    /// Configuration file [default: config.toml in the working folder, if it exists]
    // The help of the commands that read it names it: every other command accepts it too.
    #[arg(long, global = true, value_name = "FILE", hide = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Client(client::Command),
    /// Run the server
    Serve(serve::Arguments),
    /// Check the configuration and report every mistake
    Check,
    /// Show the settings, and override live ones for a time
    #[command(subcommand)]
    Config(configuration::Command),
    /// Diagnose the data folder, disk, databases, statistics service, running server and clock
    Doctor(doctor::Arguments),
    /// Show whether the server of this configuration is ready, for checks of containers
    Health,
    /// Watch the actors of a running server and steer them
    ///
    /// Keys restart, quarantine, pause, drain and reload; each asks for a reason and is an act on record. `?` lists the keys, `Q` ends.
    Top(top::Arguments),
    /// Migrate the databases to the current schema
    Migrate(migrate::Arguments),
    /// Create, verify and restore backups
    #[command(subcommand)]
    Backup(backup::Command),
    /// Print the OpenAPI 3.1 description of both HTTP APIs
    Openapi(openapi::Arguments),
    /// List and rotate the keys that sign identity assertions
    #[command(subcommand)]
    Keys(signing_keys::Command),
    /// Show all features in a tour of a running server, or of one that it starts
    Demo(demo::Arguments),
    /// Administer accounts, computers, agents, API keys and held events
    #[command(subcommand)]
    Admin(admin::Command),
}

/// What this program adds to the help of the client.
const ADDITIONS: Additions = Additions {
    groups: &[(
        "Run a server",
        &["serve", "check", "config", "doctor", "health", "top", "migrate", "backup", "keys", "admin", "openapi"],
    )],
    examples: examples::ALL,
    configuration: "--config <FILE>  Configuration file [default: config.toml in the working folder, if it exists]",
    hint: "`attache serve` starts a server, `attache login` connects this computer to one.",
};

/// Parses the arguments, runs the command, and returns its exit code.
pub fn main() -> ExitCode {
    // A coding agent waits for its hooks, so hooks are handled before the command line is built.
    if let Some(code) = commands::hook::intercepted(std::env::args_os()) {
        return code;
    }
    let Invocation { arguments: Arguments { config, command }, is_json } = program::arguments(&ADDITIONS);
    let layers = || {
        load_layers(config.as_deref(), std::env::vars())
            .map_err(|problems| Failure::of(FailureKind::Configuration, problems.to_string()))
    };
    let settings = || layers().map(|layers| layers.settings);
    let result = match command {
        Command::Client(command) => command.run(Arguments::command, &ADDITIONS),
        Command::Serve(arguments) => layers().and_then(|layers| run(serve::serve(layers, arguments))),
        Command::Check => settings().map(|settings| check::report(&settings)),
        Command::Config(command) => layers().and_then(|layers| run(configuration::run(command, layers))),
        Command::Migrate(arguments) => {
            settings().and_then(|settings| run(async move { migrate::run(arguments, &settings).await }))
        }
        Command::Doctor(arguments) => {
            settings().and_then(|settings| run(async move { Box::pin(doctor::run(&arguments, &settings)).await }))
        }
        Command::Health => settings().and_then(|settings| run(async move { doctor::health(&settings).await })),
        Command::Top(arguments) => {
            let settings = arguments.is_local().then(settings).transpose();
            settings.and_then(|settings| run(async move { top::run(&arguments, settings.as_ref()).await }))
        }
        Command::Backup(command) => {
            settings().and_then(|settings| run(async move { backup::run(command, &settings).await }))
        }
        Command::Openapi(arguments) => settings().map(|settings| openapi::print(&arguments, &settings)),
        Command::Keys(command) => {
            settings().and_then(|settings| run(async move { signing_keys::run(command, &settings).await }))
        }
        Command::Demo(arguments) => {
            let settings = arguments.is_auto().then(settings).transpose();
            settings.and_then(|settings| run(async move { Box::pin(demo::run(&arguments, settings.as_ref())).await }))
        }
        Command::Admin(command) => {
            settings().and_then(|settings| run(async move { admin::run(command, &settings).await }))
        }
    };
    program::end(result, is_json)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use commands::examples::Examples;
    use commands::help::{GROUPS, MORE, laid_out};

    use super::*;

    fn program() -> clap::Command {
        laid_out(Arguments::command(), &ADDITIONS)
    }

    fn all_examples() -> impl Iterator<Item = &'static Examples> {
        commands::examples::ALL.iter().chain(examples::ALL)
    }

    /// The words of every visible command that runs without a subcommand.
    fn leaves(command: &clap::Command, path: &str) -> Vec<String> {
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
        let grouped: Vec<String> = GROUPS
            .iter()
            .chain(ADDITIONS.groups)
            .chain([&MORE])
            .flat_map(|(_, names)| *names)
            .map(|name| (*name).to_owned())
            .collect();
        assert_eq!(grouped.len(), visible.len());
        assert_eq!(grouped.into_iter().collect::<BTreeSet<_>>(), visible);
    }

    #[test]
    fn every_command_has_examples_that_the_parser_accepts() {
        let program = program();
        let with_examples: BTreeSet<String> = all_examples().map(|of| of.command.to_owned()).collect();
        assert_eq!(with_examples.len(), all_examples().count(), "a command is listed twice");
        assert_eq!(leaves(&program, "").into_iter().collect::<BTreeSet<_>>(), with_examples);
        for examples in all_examples() {
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
