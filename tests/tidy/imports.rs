//! Files of a crate import each other in few and small circles: the files of a large circle cannot be read or tested separately.
//!
//! An import is a path that starts with `crate`, `self`, `super` or a child module, in a `use` or in code. It refers to the file of its
//! longest prefix that is a module, and through a `pub use` there to the file of the item. A parent that only declares or re-exports a
//! child does not import it. Modules under `#[cfg(test)]` may import any module.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::tokens::tokens;
use crate::{relative, root, sources};

/// Files in the largest circle of imports. May only be lowered.
const CIRCLE_FILES_MAX: usize = 5;

/// A module path within its crate; the root is empty.
type Module = Vec<String>;

#[derive(Default)]
struct File {
    /// Child modules that the file declares.
    children: BTreeSet<String>,
    /// Items of `pub use`, by the name under which they are visible.
    exports: BTreeMap<String, Vec<String>>,
    /// Paths that the file imports.
    paths: Vec<Vec<String>>,
}

impl File {
    fn read(source: &str) -> Self {
        let tokens = tokens(source);
        let is = |place: usize, expected: &str| tokens.get(place).is_some_and(|token| token == expected);
        let mut file = Self::default();
        let (mut used, mut words) = (Vec::new(), BTreeSet::new());
        let mut place = 0;
        while place < tokens.len() {
            if is(place, "mod") && is(place + 2, ";") {
                file.children.insert(tokens[place + 1].clone());
                place += 3;
            // `use<…>` lists the lifetimes and types that a return type captures.
            } else if is(place, "use") && !is(place + 1, "<") {
                let end = (place..tokens.len()).find(|end| is(*end, ";")).unwrap_or(tokens.len());
                let exported = place > 0 && (is(place - 1, "pub") || is(place - 1, ")"));
                for (path, name) in tree(&tokens[place + 1..end]) {
                    used.push((path, exported.then_some(name)));
                }
                place = end + 1;
            } else {
                words.insert(&tokens[place]);
                // The path of `pub(in path)` is no import.
                let is_visibility = place > 1 && is(place - 1, "in") && is(place - 2, "(");
                let begins = place == 0 || !(is(place - 1, "::") || is(place - 1, ".") || is_visibility);
                if begins && is(place + 1, "::") {
                    file.paths.push(path_at(&tokens, place));
                }
                place += 1;
            }
        }
        for (path, exported) in used {
            if let Some(name) = exported {
                // A re-export is an import only if the file uses the name itself.
                if words.contains(&name) {
                    file.paths.push(path.clone());
                }
                file.exports.insert(name, path);
            } else {
                file.paths.push(path);
            }
        }
        file
    }

    /// The path from the root of the crate; `None` if it leads out of the crate.
    fn absolute(&self, module: &Module, path: &[String]) -> Option<Module> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([module, rest].concat()),
            "super" => {
                let ups = path.iter().take_while(|part| *part == "super").count();
                Some([&module[..module.len().checked_sub(ups)?], &path[ups..]].concat())
            }
            child => self.children.contains(child).then(|| [module, path].concat()),
        }
    }
}

/// Consecutive names from here on: `a::b::c`.
fn path_at(tokens: &[String], start: usize) -> Vec<String> {
    let mut path = vec![tokens[start].clone()];
    let mut place = start + 1;
    while tokens.get(place).is_some_and(|token| token == "::")
        && let Some(next) = tokens.get(place + 1)
        && next.chars().all(|letter| letter.is_alphanumeric() || letter == '_')
    {
        path.push(next.clone());
        place += 2;
    }
    path
}

/// The paths of a use tree, each with the name that it brings into scope.
fn tree(tokens: &[String]) -> Vec<(Vec<String>, String)> {
    let open = tokens.iter().position(|token| token == "{");
    let end = open.unwrap_or_else(|| tokens.iter().position(|token| token == "as").unwrap_or(tokens.len()));
    let prefix: Vec<String> = tokens[..end].iter().filter(|token| *token != "::").cloned().collect();
    let Some(open) = open else {
        let name = tokens.last().cloned().unwrap_or_default();
        return vec![(prefix, name)];
    };
    let mut found = Vec::new();
    let (mut depth, mut start) = (0_usize, open + 1);
    for place in open..tokens.len() {
        match tokens[place].as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        let ends_part = (tokens[place] == "," && depth == 1) || (tokens[place] == "}" && depth == 0);
        if ends_part && start < place {
            found.extend(tree(&tokens[start..place]));
        }
        if ends_part {
            start = place + 1;
        }
    }
    let with_prefix = |(path, name): (Vec<String>, String)| {
        let path: Vec<String> = if path == ["self"] { Vec::new() } else { path };
        ([&prefix[..], &path].concat(), name)
    };
    found.into_iter().map(with_prefix).collect()
}

/// The files of one crate by module, and the imports of each file.
struct Crate {
    paths: BTreeMap<Module, PathBuf>,
    imports: BTreeMap<Module, BTreeSet<Module>>,
}

impl Crate {
    /// A crate with its modules in `folder` and the root `lib.rs` or `main.rs` there.
    fn read(folder: &Path) -> Self {
        let root = if folder.join("lib.rs").exists() { "lib" } else { "main" };
        let mut paths = BTreeMap::new();
        for path in sources(folder) {
            let stem = path.strip_prefix(folder).unwrap().with_extension("");
            let module: Module =
                stem.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
            let module = if module == [root] { Vec::new() } else { module };
            paths.insert(module, path);
        }
        let read = |path: &PathBuf| File::read(&std::fs::read_to_string(path).unwrap());
        let files: BTreeMap<Module, File> = paths.iter().map(|(module, path)| (module.clone(), read(path))).collect();
        let of = |module: &Module, file: &File| {
            let imported = file.paths.iter().filter_map(|path| file.absolute(module, path));
            imported.filter_map(|path| resolve(&files, &path, 0)).filter(|other| other != module).collect()
        };
        let imports = files.iter().map(|(module, file)| (module.clone(), of(module, file))).collect();
        Self { paths, imports }
    }

    /// Sets of files that all import each other, directly or through others.
    fn circles(&self) -> BTreeSet<BTreeSet<&Module>> {
        let reached: BTreeMap<&Module, BTreeSet<&Module>> =
            self.imports.keys().map(|module| (module, self.reachable(module))).collect();
        let circle = |module: &&Module| -> BTreeSet<&Module> {
            let mutual = reached[module].iter().filter(|other| reached[*other].contains(module));
            mutual.copied().collect()
        };
        self.imports.keys().map(|module| circle(&module)).filter(|circle| circle.len() > 1).collect()
    }

    fn reachable<'c>(&'c self, from: &'c Module) -> BTreeSet<&'c Module> {
        let mut reached = BTreeSet::new();
        let mut waiting = vec![from];
        while let Some(module) = waiting.pop() {
            for next in &self.imports[module] {
                if reached.insert(next) {
                    waiting.push(next);
                }
            }
        }
        reached
    }

    fn describe(&self, circle: &BTreeSet<&Module>) -> String {
        let name = |module: &Module| relative(&self.paths[module]);
        let imports = circle.iter().flat_map(|module| {
            let others = self.imports[*module].iter().filter(|other| circle.contains(other));
            others.map(|other| format!("    {} -> {}", name(module), name(other)))
        });
        let imports: Vec<String> = imports.collect();
        format!("{} files import each other:\n{}", circle.len(), imports.join("\n"))
    }
}

/// The file that a path refers to. Re-exports are followed up to six times, which is more than any chain of re-exports has.
fn resolve(files: &BTreeMap<Module, File>, path: &[String], depth: u8) -> Option<Module> {
    let length = (0..=path.len()).rev().find(|length| files.contains_key(&path[..*length]))?;
    let base = path[..length].to_vec();
    if let Some(item) = path.get(length)
        && depth < 6
        && let Some(exported) = files[&base].exports.get(item)
        && let Some(target) = files[&base].absolute(&base, exported)
        && target != path[..=length]
    {
        return resolve(files, &[&target[..], &path[length + 1..]].concat(), depth + 1).or(Some(base));
    }
    Some(base)
}

/// The folders of all crates: of packages, and of tests with several files.
fn crates() -> Vec<PathBuf> {
    let mut folders = BTreeSet::new();
    for path in sources(&root()) {
        let folder = path.parent().unwrap().to_owned();
        let is_root = path.ends_with("main.rs") || path.ends_with("lib.rs");
        let in_package = folder.ends_with("src") && folder.with_file_name("Cargo.toml").exists();
        if is_root && (in_package || !folder.join("../src").exists()) {
            folders.insert(folder);
        }
    }
    folders.into_iter().collect()
}

#[test]
fn no_large_circle_of_imports() {
    let crates = crates();
    assert!(crates.len() > 10, "{crates:?}");
    let mut large = Vec::new();
    for folder in crates {
        let of = Crate::read(&folder);
        large.extend(
            of.circles().iter().filter(|circle| circle.len() > CIRCLE_FILES_MAX).map(|circle| of.describe(circle)),
        );
    }
    assert!(
        large.is_empty(),
        "a circle of imports has at most {CIRCLE_FILES_MAX} files: move the shared item below both, or pass a value instead\n{}",
        large.join("\n")
    );
}

#[test]
fn imports_are_paths_into_the_crate() {
    let file = File::read(
        "mod b; pub use self::b::C; use super::{d, e::{self, F as G}}; use std::fmt; fn f() -> b::H { crate::i::J::k() }",
    );
    let module = vec!["a".to_owned()];
    let found: Vec<String> =
        file.paths.iter().filter_map(|path| file.absolute(&module, path)).map(|path| path.join("/")).collect();
    assert_eq!(found, ["a/b/H", "i/J/k", "d", "e", "e/F"]);
    assert_eq!(file.exports["C"].join("::"), "self::b::C");
}
