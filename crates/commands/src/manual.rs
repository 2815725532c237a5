//! `attache manual` and `attache completions`: generated from the definitions that parse the arguments.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::failure::{Done, Failure};
use crate::output;

/// Options of `attache completions`.
#[derive(Debug, Args)]
pub struct CompletionsArguments {
    /// Shell to print the script for
    shell: Shell,
}

/// Prints the completion script of a shell.
pub fn completions(arguments: &CompletionsArguments, mut program: clap::Command) {
    let mut script = Vec::new();
    // The name that people type: a package may install a program under another one.
    let path = std::env::args_os().next().map(PathBuf::from);
    let typed = path.as_deref().and_then(Path::file_name).and_then(OsStr::to_str).filter(|name| !name.contains(' '));
    let name = typed.unwrap_or(program.get_name()).to_owned();
    clap_complete::generate(arguments.shell, &mut program, name, &mut script);
    print(&script);
}

/// Prints the manual page, with a section for each command.
pub fn manual(program: clap::Command) -> Done {
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let mut page = Vec::new();
    write(&mut page, &program).map_err(Failure::caused)?;
    // roff input is ASCII; other characters are written as escapes.
    let page = String::from_utf8_lossy(&page);
    let escaped: Vec<String> = page.chars().map(escaped).collect();
    print(escaped.concat().as_bytes());
    Ok(())
}

fn write(page: &mut Vec<u8>, program: &clap::Command) -> io::Result<()> {
    let man = Man::new(program.clone());
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    commands(page, program, program.get_name())?;
    man.render_version_section(page)
}

/// Appends a section for each command below `above`, recursively.
fn commands(page: &mut Vec<u8>, above: &clap::Command, path: &str) -> io::Result<()> {
    for command in above.get_subcommands().filter(|command| !command.is_hide_set()) {
        let path = format!("{path} {}", command.get_name());
        // A command that only groups others has no section.
        if command.is_subcommand_required_set() {
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
        // Sections of the generated page become subsections of this one.
        let section = String::from_utf8_lossy(&section)
            .replace(".SH DESCRIPTION\n", "")
            .replace(".SH EXTRA\n", ".PP\n")
            .replace(".SH ", ".SS ");
        page.extend_from_slice(section.as_bytes());
        commands(page, command, &path)?;
    }
    Ok(())
}

fn escaped(character: char) -> String {
    if character.is_ascii() { character.to_string() } else { format!("\\[u{:04X}]", u32::from(character)) }
}

fn print(bytes: &[u8]) {
    output::print(String::from_utf8_lossy(bytes).trim_end());
}
