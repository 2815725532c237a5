//! Numbers of the parameters of a statement of SQLite.

use rusqlite::Statement;

/// Calls `bind` for each parameter of a statement, with its place in the statement, from 1, and the index of its argument, from 0. The
/// argument of `$3` and `?3` is the third one, that of `?` the one after the last `?`: SQLite numbers named parameters in the order of the
/// text, where `$2` may precede `$1`.
pub fn bind_numbered(
    statement: &mut Statement<'_>,
    mut bind: impl FnMut(&mut Statement<'_>, usize, usize) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let mut unnamed = 0;
    for place in 1..=statement.parameter_count() {
        let number = match statement.parameter_name(place) {
            None => {
                unnamed += 1;
                unnamed
            }
            Some(name) => match name.get(1..).and_then(|number| number.parse::<usize>().ok()) {
                Some(number) => number,
                None => return Err(rusqlite::Error::InvalidParameterName(name.to_owned())),
            },
        };
        match number.checked_sub(1) {
            Some(index) => bind(statement, place, index)?,
            None => return Err(rusqlite::Error::InvalidParameterCount(0, place)),
        }
    }
    Ok(())
}
