//! `attache manual` and `attache completions`: made from the same arguments that are read.

use std::io;

use clap::Args;
use clap_complete::Shell;
use clap_mangen::Man;

use super::{Done, Failure, output};

/// For which shell.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  attache completions bash > ~/.local/share/bash-completion/completions/attache\n  attache completions fish > ~/.config/fish/completions/attache.fish\n  attache completions zsh > \"${fpath[1]}/_attache\""
)]
pub struct CompletionsArguments {
    /// The shell
    shell: Shell,
}

/// Prints what completes commands in a shell.
pub fn completions(arguments: &CompletionsArguments, mut program: clap::Command) {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut program, "attache", &mut script);
    print(&script);
}

/// Prints the manual page, with every command in it.
pub fn manual(program: clap::Command) -> Done {
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let mut page = Vec::new();
    write(&mut page, &program).map_err(Failure::refused)?;
    // Readers of manual pages agree on ASCII and on names for everything else.
    let page = String::from_utf8_lossy(&page);
    let named: Vec<String> = page.chars().map(named).collect();
    print(named.concat().as_bytes());
    Ok(())
}

fn write(page: &mut Vec<u8>, program: &clap::Command) -> io::Result<()> {
    let man = Man::new(program.clone());
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    commands(page, program, "attache")?;
    man.render_version_section(page)
}

/// A section for each command, and for those below it.
fn commands(page: &mut Vec<u8>, above: &clap::Command, path: &str) -> io::Result<()> {
    for command in above.get_subcommands().filter(|command| !command.is_hide_set()) {
        let path = format!("{path} {}", command.get_name());
        if command.has_subcommands() {
            commands(page, command, &path)?;
            continue;
        }
        page.extend_from_slice(format!(".SH \"{}\"\n", path.to_uppercase()).as_bytes());
        let man = Man::new(command.clone());
        let mut section = Vec::new();
        man.render_description_section(&mut section)?;
        man.render_synopsis_section(&mut section)?;
        if command.get_arguments().any(|argument| !argument.is_hide_set()) {
            man.render_options_section(&mut section)?;
        }
        if command.get_after_help().is_some() {
            man.render_extra_section(&mut section)?;
        }
        // What is a section of a page of its own is a part of one here.
        let section = String::from_utf8_lossy(&section)
            .replace(".SH DESCRIPTION\n", "")
            .replace(".SH EXTRA\n", ".PP\n")
            .replace(".SH ", ".SS ");
        page.extend_from_slice(section.as_bytes());
    }
    Ok(())
}

fn named(mail: char) -> String {
    if mail.is_ascii() { mail.to_string() } else { format!("\\[u{:04X}]", u32::from(mail)) }
}

fn print(bytes: &[u8]) {
    output::say(String::from_utf8_lossy(bytes).trim_end());
}
