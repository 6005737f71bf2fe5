//! `docs/guarantees.md` says what the code says.

use std::fmt::Write as _;
use std::{env, fs};

const BEGIN: &str = "<!-- guarantees: written by the test `readme` -->\n";
const END: &str = "<!-- /guarantees -->";

fn table() -> String {
    let yes = |flag| if flag { "yes" } else { "no" };
    let mut text = String::from(
        "| store, layout | one holder until | tokens rise | `fair` | `reentrant` | other processes see it | waiters are pushed to | outlives its connection |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    let all = lockwright::stores::guarantees();
    for (what, g) in &all {
        writeln!(
            text,
            "| {} `{}`{what} | {} | {} | {} | {} | {} | {} | {} |",
            g.store,
            g.layout,
            g.exclusive_until,
            g.token,
            yes(g.fair),
            yes(g.reentrant),
            yes(g.shared),
            yes(g.push),
            yes(g.survives_disconnect)
        )
        .unwrap();
    }
    for (at, (what, g)) in all.iter().enumerate() {
        let others = all[..at].iter().filter(|(_, other)| other.store == g.store);
        let told: Vec<_> = others.flat_map(|(_, g)| g.notes).collect();
        match told.is_empty() {
            true => writeln!(text, "\n## {}\n", g.store).unwrap(),
            // Another format of the same layout, of which nothing else is to be said.
            false if g.notes.iter().all(|note| told.contains(&note)) => {}
            false => writeln!(text, "\n### {} `{}`{what}, besides\n", g.store, g.layout).unwrap(),
        }
        for note in g.notes.iter().filter(|note| !told.contains(note)) {
            writeln!(text, "- {note}").unwrap();
        }
    }
    text
}

#[test]
fn the_table_of_guarantees_is_what_the_code_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guarantees.md");
    let page = fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page has a place for the table");
    let (written, after) = rest.split_once(END).expect("the table has an end");
    if env::var_os("LOCKWRIGHT_REWRITE_GUARANTEES").is_some() {
        fs::write(path, format!("{before}{BEGIN}{}{END}{after}", table())).unwrap();
    } else {
        assert_eq!(written, table(), "run this test with LOCKWRIGHT_REWRITE_GUARANTEES=1 and read the difference");
    }
}
