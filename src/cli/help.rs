//! The layout of `attache --help`: the commands in groups.

use std::fmt::Write;

use clap::Command;

/// Headings and the names of their commands, in the order in which they are printed.
const GROUPS: [(&str, &[&str]); 3] = [
    ("Server commands", &["serve", "check", "doctor", "migrate", "backup", "openapi"]),
    ("Operator commands (they work on the database, also while the server runs)", &["admin", "keys"]),
    (
        "Client commands",
        &[
            "attach",
            "machine",
            "agent",
            "account",
            "usage",
            "consent",
            "activity",
            "event",
            "verify",
            "audit",
            "space",
            "add",
            "search",
            "mcp",
            "key",
            "profile",
            "demo",
            "completions",
            "manual",
            "help",
        ],
    ),
];

/// `program` with a help text that lists its commands in groups; clap itself has no groups of commands.
pub fn grouped(mut program: Command) -> Command {
    // Adds the command `help`, which is listed too.
    program.build();
    let header = *program.get_styles().get_header();
    let literal = *program.get_styles().get_literal();
    let visible = program.get_subcommands().filter(|command| !command.is_hide_set());
    let width = visible.map(|command| command.get_name().len()).max().unwrap_or_default();
    let mut commands = String::new();
    for (heading, names) in GROUPS {
        // Writing to a string cannot fail.
        let _ = writeln!(commands, "\n{header}{heading}:{header:#}");
        for command in names.iter().filter_map(|name| program.find_subcommand(name)) {
            let (name, about) = (command.get_name(), command.get_about().map(ToString::to_string).unwrap_or_default());
            let _ = writeln!(commands, "  {literal}{name:width$}{literal:#}  {about}");
        }
    }
    program.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{commands}\n{header}Options:{header:#}\n{{options}}"
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;
    use crate::cli::Arguments;

    #[test]
    fn every_visible_command_is_in_exactly_one_group() {
        let mut program = Arguments::command();
        program.build();
        let visible = program.get_subcommands().filter(|command| !command.is_hide_set());
        let visible: BTreeSet<String> = visible.map(|command| command.get_name().to_owned()).collect();
        let grouped: Vec<String> = GROUPS.iter().flat_map(|(_, names)| *names).map(|name| (*name).to_owned()).collect();
        assert_eq!(grouped.len(), visible.len());
        assert_eq!(grouped.into_iter().collect::<BTreeSet<_>>(), visible);
    }
}
