"""A tree with many mutants in it, of which the environment's LOCKWRIGHT_MUTANT chooses one: built once, run for each.

A guard in a function of Rust: the function's body becomes a `match` with the body as it is and, for each mutant, as that has
it. A guard in a script of Lua's or in SQL: the body of a call that is about to be sent has the file's text replaced. What lies
elsewhere (a constant, also one that is a statement by itself, a table, a function whose type its body decides) has to be built
alone.
"""

import collections
import re

VARIABLE = "LOCKWRIGHT_MUTANT"
MODULE = "mutants"
MACHINES = "core/machines"

# What a reader of Rust has to see to find where a function's body begins and ends.
TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?'(?:\\.[^']*|[^'\\])'|[{}();\[\]]|\bfn\s+\w+""", re.DOTALL
)
# Its two versions would be of two types, or cannot ask which of them is to run.
ONE_TYPE = re.compile(r"->\s*impl\b|\bconst\s+(?:unsafe\s+)?fn\b")

# Where a script's text leaves for the server: in the store, and in tests that send it themselves.
SENDERS = [
    "core/resp/src", "core/src/stores/mysql", "core/src/stores/postgres", "core/tests", f"{MACHINES}/src/stores/redis",
    f"{MACHINES}/tests",
]
SENT = re.compile(r"(?<![\w.:])((?:\w+::)*(?:\w+(?:\[[^\]]*\])?\.)*(?:call|CALLS\.\w+))\.body\b(?!\.is_empty)")

RUST = """//! Which mutant this process runs. Made by scripts/mutate; the tree has no such file.

/// The number that the environment names, or 0: none.
pub fn active() -> u32 {{
    static ACTIVE: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    *ACTIVE.get_or_init(|| std::env::var("{variable}").ok().and_then(|number| number.parse().ok()).unwrap_or(0))
}}

type Body = &'static [&'static str];

/// A script as the mutant has it.
pub fn script(body: Body) -> Body {{
    static SCRIPTS: std::sync::Mutex<Vec<(Body, Body)>> = std::sync::Mutex::new(Vec::new());
    let (from, to): (&str, &str) = match active() {{
{arms}
        _ => return body,
    }};
    let mut known = SCRIPTS.lock().unwrap();
    if let Some((_, changed)) = known.iter().find(|(known, _)| *known == body) {{
        return changed;
    }}
    let piece = |piece: &&str| -> &'static str {{ Box::leak(piece.replace(from, to).into_boxed_str()) }};
    let changed = Box::leak(body.iter().map(piece).collect());
    known.push((body, changed));
    changed
}}
"""


def bodies(text):
    """Each function: where its signature begins, where its body begins and ends, braces included."""
    open_bodies, signature, depth = [], None, 0
    for token in TOKEN.finditer(text):
        word = token.group()
        if word.startswith("fn") and len(word) > 2:
            signature = (token.start(), depth)
        elif word in ("(", "[", "{"):
            if word == "{" and signature and signature[1] == depth:
                open_bodies.append((depth, signature[0], token.start()))
                signature = None
            depth += 1
        elif word in (")", "]", "}"):
            depth -= 1
            if word == "}" and open_bodies and open_bodies[-1][0] == depth:
                _, start, body = open_bodies.pop()
                yield start, body, token.end()
        elif word == ";" and signature and signature[1] == depth:
            signature = None


def body_around(text, find):
    """Where the innermost body begins and ends that has all of `find`, if a switch can stand in it."""
    start = text.find(find)
    end = start + len(find)
    around = [(body, close, sign) for sign, body, close in bodies(text) if body < start and end < close]
    if not around:
        return None
    body, close, sign = max(around)
    line = text.rfind("\n", 0, sign) + 1
    return None if ONE_TYPE.search(text[line:body]) else (body, close)


def switch_bodies(text, numbered, module):
    """The text with a switch in each body that has one of the guards, and the numbers of those that have to be built alone."""
    places, alone = collections.defaultdict(list), []
    for number, mutant in numbered:
        place = body_around(text, mutant["find"])
        if place:
            places[place].append((number, mutant))
        else:
            alone.append(number)
    # The last first, so that the places before it stay where they are.
    after = len(text)
    for (body, close), there in sorted(places.items(), reverse=True):
        if close > after:
            alone.extend(number for number, _ in there)
            continue
        original = text[body:close]
        arms = [f"{number} => {original.replace(m['find'], m['replace'])}" for number, m in there]
        text = text[:body] + f"{{ match {module}::active() {{ {' '.join(arms)} _ => {original} }} }}" + text[close:]
        after = body
    return text, alone


def literal(text):
    assert '"####' not in text
    return f'r####"{text}"####'


def module_in(file):
    """What a file calls the module that knows which mutant runs. It is the machines'; the core hands it on."""
    if file.startswith((f"{MACHINES}/src/", "core/src/")):
        return f"crate::{MODULE}"
    return f"lockwright_machines::{MODULE}" if file.startswith(("core/", "bindings-wasm/")) else f"lockwright::{MODULE}"


def is_constant(statement):
    """Whether a file of SQL is sent as a constant of its folder's, or one of Lua round the body of a call, and not as that."""
    if statement.parent.name == "combined":
        return True
    included = re.compile(rf'const \w+: &str = include_str!\("{re.escape(statement.name)}"\)')
    return any(included.search(path.read_text()) for path in statement.parent.glob("*.rs"))


def switched(tree, mutants):
    """Writes all mutants that can stand side by side into the tree, whose core lies in `core`. Returns the numbers, from
    1, of those that cannot."""
    files = collections.defaultdict(list)
    for number, mutant in enumerate(mutants, 1):
        files[mutant["file"]].append((number, mutant))
    arms, alone = [], []
    for file, numbered in files.items():
        path = tree / file
        text = path.read_text()
        once = [(number, mutant) for number, mutant in numbered if text.count(mutant["find"]) == 1]
        alone += [number for number, _ in numbered if number not in dict(once)]
        if file.endswith(".rs"):
            text, others = switch_bodies(text, once, module_in(file))
            alone += others
            path.write_text(text)
        elif file.endswith((".lua", ".sql")) and not is_constant(path):
            arms += [
                f"        {number} => ({literal(text)}, {literal(text.replace(m['find'], m['replace']))})," for number, m in once
            ]
        else:
            alone += [number for number, _ in once]
    for path in [path for folder in SENDERS for path in (tree / folder).rglob("*.rs")]:
        text = path.read_text()
        sent = SENT.sub(rf"{module_in(str(path.relative_to(tree)))}::script(\1.body)", text)
        if sent != text:
            path.write_text(sent)
    (tree / MACHINES / "src" / f"{MODULE}.rs").write_text(RUST.format(variable=VARIABLE, arms="\n".join(arms)))
    for folder, item in [(MACHINES, f"pub mod {MODULE};"), ("core", f"pub use lockwright_machines::{MODULE};")]:
        library = tree / folder / "src/lib.rs"
        library.write_text(library.read_text() + f"\n#[doc(hidden)]\n{item}\n")
    return alone
