//! Accounts for every face, store and scenario: each triple is run or skipped with a reason, and none is forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fmt, fs};

use serde_json::Value;

use crate::rows::{Face, Store};
use crate::scenario::{Mixed, Peer, Scenario};

/// One scenario on one store, played by one face or by two in turn.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Triple {
    pub scenario: String,
    pub store: String,
    pub team: String,
}

impl fmt::Display for Triple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {} with {}", self.scenario, self.store, self.team)
    }
}

/// Every team that plays the scenario: each face alone, and, where languages may mix, each with the next one, and one
/// face of each language together; but for another way to the library of a face, which makes no pairs. All pairs would
/// be many soon, and prove little more: they meet at the store only.
pub fn teams(scenario: &Scenario, faces: &[Face]) -> Vec<Vec<Face>> {
    let (faces, peers): (Vec<_>, Vec<_>) = faces.iter().cloned().partition(|face| face.joins.is_none());
    if scenario.peer != Peer::No {
        let both = |peer: &Face, face: &Face| {
            let teams = [vec![face.clone(), peer.clone()], vec![peer.clone(), face.clone()]];
            teams.into_iter().take(if scenario.peer == Peer::Either { 2 } else { 1 })
        };
        let peers = peers.iter().filter(|peer| peer.beside == (scenario.peer == Peer::Beside));
        return peers.flat_map(|peer| faces.iter().flat_map(move |face| both(peer, face))).collect();
    }
    let mut teams: Vec<_> = faces.iter().map(|face| vec![face.clone()]).collect();
    if scenario.mixed == Mixed::Yes {
        let languages = languages(scenario, &faces);
        let faces: Vec<_> = faces.into_iter().filter(|face| face.daily.is_none()).collect();
        let pairs = if faces.len() > 2 { faces.len() } else { faces.len().saturating_sub(1) };
        teams.extend((0..pairs).map(|i| vec![faces[i].clone(), faces[(i + 1) % faces.len()].clone()]));
        if languages.len() > 2 {
            teams.push(languages);
        }
    }
    teams
}

/// One face of each language that can play the scenario, as many as it has actors: scenarios begin with another in
/// turn, so that each language meets each.
fn languages(scenario: &Scenario, faces: &[Face]) -> Vec<Face> {
    let mut chosen = one_of_each_language(faces);
    chosen.retain(|face| cannot(scenario, face).is_none());
    let first = turn(&scenario.name) % chosen.len().max(1);
    chosen.rotate_left(first);
    chosen.truncate(scenario.actors());
    chosen
}

/// A number by which what is called so takes turns.
fn turn(name: &str) -> usize {
    name.bytes().map(usize::from).sum()
}

/// The first face of each language.
pub fn one_of_each_language(faces: &[Face]) -> Vec<Face> {
    let mut chosen: Vec<Face> = Vec::new();
    for face in faces {
        if chosen.iter().all(|other| other.folder != face.folder) {
            chosen.push(face.clone());
        }
    }
    chosen
}

/// How a team is called.
pub fn team_name(team: &[Face]) -> String {
    team.iter().map(|face| face.name.as_str()).collect::<Vec<_>>().join("+")
}

/// Whether the team keeps its locks there: a library that is not ours does so in one way only, a store that is not ours
/// is known to the faces that it names, and a face may name the stores that it has.
fn may_meet(team: &[Face], store: &Store) -> bool {
    team.iter().all(|face| has(face, store) && face.joins.as_ref().is_none_or(|joins| *joins == store.name))
}

fn has(face: &Face, store: &Store) -> bool {
    let is_named = |names: &[String], name: &String| names.is_empty() || names.contains(name);
    is_named(&store.faces, &face.name) && is_named(&face.stores, &store.name)
}

/// The faces of ours that have this store.
pub fn ours_with(faces: &[Face], store: &Store) -> Vec<Face> {
    faces.iter().filter(|face| face.joins.is_none() && has(face, store)).cloned().collect()
}

/// Every triple there is.
pub fn all(scenarios: &[Scenario], faces: &[Face], stores: &[Store]) -> BTreeSet<Triple> {
    let mut triples = BTreeSet::new();
    for scenario in scenarios {
        for team in teams(scenario, faces) {
            triples.extend(stores.iter().filter(|store| may_meet(&team, store)).map(|store| Triple {
                scenario: scenario.name.clone(),
                store: store.name.clone(),
                team: team_name(&team),
            }));
        }
    }
    triples
}

/// Why the scenario is never played, if it is not.
pub fn reason(scenario: &Scenario, team: &[Face], store: &Store, promises: &Value) -> Option<String> {
    for need in scenario.needs.iter().map(String::as_str).chain(scenario.implied_needs()) {
        if let Some(reason) = store.cannot.get(need) {
            return Some(format!("{}: {reason}", store.name));
        }
        if promises.get(need) == Some(&Value::Bool(false)) {
            return Some(format!("{} does not promise {need}", store.name));
        }
    }
    if team.len() > 1 && promises.get("shared") == Some(&Value::Bool(false)) {
        return Some(format!("{} does not promise shared: two faces are two processes", store.name));
    }
    if let Some((face, reason)) = team.iter().find_map(|face| Some((face, cannot(scenario, face)?))) {
        return Some(format!("{}: {reason}", face.name));
    }
    let in_one_process = promises.get("shared") == Some(&Value::Bool(false)) && scenario.actors() > 1;
    if let Some((face, reason)) =
        team.iter().filter(|_| in_one_process).find_map(|face| Some((face, face.one_thread.as_ref()?)))
    {
        return Some(format!(
            "{}: {reason}; clients that meet in one process do not wait beside one another",
            face.name
        ));
    }
    if let Some(reason) = store.peers_only.as_ref().filter(|_| scenario.peer == Peer::No) {
        return Some(format!("{}: {reason}", store.name));
    }
    None
}

/// Why the face can never play it, if it cannot.
fn cannot<'a>(scenario: &Scenario, face: &'a Face) -> Option<&'a String> {
    let whole = format!("scenario {}", scenario.name);
    let needs = scenario.needs.iter().map(String::as_str);
    let names = scenario.commands().into_iter().chain([scenario.name.as_str(), &whole]).chain(needs);
    names.filter_map(|name| face.cannot.get(name)).next()
}

/// Why it is not played every day, if it is not.
pub fn day_off(scenario: &Scenario, team: &[Face], store: &Store, faces: &[Face]) -> Option<String> {
    let slow = team.iter().filter_map(|face| face.only.as_ref());
    if let Some(only) = slow.into_iter().find(|only| !only.meets(&scenario.name, &team_name(team))) {
        return Some(only.reason.clone());
    }
    if let [face] = team
        && let Some(part) = face.daily.as_ref().filter(|part| !part.scenarios.contains(&scenario.name))
    {
        return Some(format!("{}: {}", face.name, part.reason));
    }
    if let Some(part) = store
        .only
        .as_ref()
        .filter(|_| scenario.peer == Peer::No)
        .filter(|part| team.len() > 1 || !part.scenarios.contains(&scenario.name))
    {
        return Some(format!("{}: {}", store.name, part.reason));
    }
    let only = scenario.only.as_ref().filter(|only| !only.teams.contains(&team_name(team)));
    let only = only.map(|only| only.reason.clone());
    only.or_else(|| mixed_day_off(scenario, team, faces)).or_else(|| face_day_off(scenario, team, store, faces))
}

/// Why a face has the day off at a store that plays a part of the suite only, if it has: two play each scenario there
/// every day, and the faces take turns. What differs from store to store is below the faces, which all play all of it
/// elsewhere.
fn face_day_off(scenario: &Scenario, team: &[Face], store: &Store, faces: &[Face]) -> Option<String> {
    let [face] = team else { return None };
    if store.only.is_none() || scenario.only.is_some() || face.daily.is_some() {
        return None;
    }
    let able = |face: &Face| face.daily.is_none() && cannot(scenario, face).is_none();
    let able: Vec<_> = ours_with(faces, store).into_iter().filter(able).collect();
    let first = turn(&scenario.name) + turn(&store.name);
    // Half of them apart, so that they are of two languages.
    let mut chosen = [first, first + able.len() / 2].into_iter();
    let plays = able.len() <= 2 || chosen.any(|at| able[at % able.len()].name == face.name);
    (!plays).then(|| format!("{}: two other faces play it there every day", store.name))
}

/// Why a mixed team has the day off, if it has: of a scenario's mixed teams one plays every day, that of languages
/// where there is such a team, else a pair; scenarios take the pairs in turn, so that each pair plays some.
/// Languages meet at the store only, where a pair more proves little.
fn mixed_day_off(scenario: &Scenario, team: &[Face], faces: &[Face]) -> Option<String> {
    if scenario.mixed == Mixed::No || scenario.only.is_some() || team.len() == 1 {
        return None;
    }
    let mixed: Vec<_> = teams(scenario, faces).into_iter().filter(|team| team.len() > 1).collect();
    let all_languages = mixed.iter().find(|team| team.len() > 2);
    let one = all_languages.unwrap_or(&mixed[turn(&scenario.name) % mixed.len()]);
    (team_name(one) != team_name(team)).then(|| "another mixed team plays it every day, and others with --full".into())
}

/// What became of a triple.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Passed,
    Failed,
    /// With the reason.
    Skipped(String),
}

/// What is wrong with the account as such: triples without an outcome, and skips without a reason.
pub fn unaccounted(expected: &BTreeSet<Triple>, outcomes: &BTreeMap<Triple, Outcome>) -> Vec<String> {
    let missing = expected.iter().filter(|triple| !outcomes.contains_key(triple));
    let missing = missing.map(|triple| format!("{triple} was neither run nor skipped"));
    let silent =
        outcomes.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Skipped(why) if why.trim().is_empty()));
    missing.chain(silent.map(|(triple, _)| format!("{triple} was skipped without a reason"))).collect()
}

/// What the rows leave out of the tree under `root`, and what they name that is not there.
pub fn not_in_rows(root: &Path, faces: &[Face], stores: &[Store], scenarios: &[Scenario]) -> Vec<String> {
    let mut wrong = Vec::new();
    let folders = |path: &Path| -> Vec<String> {
        let entries = fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
        entries.filter(|e| e.path().is_dir()).map(|e| e.file_name().to_string_lossy().into_owned()).collect()
    };
    for binding in folders(root).iter().filter(|name| name.starts_with("bindings-")) {
        if !faces.iter().any(|face| face.folder == **binding) {
            wrong.push(format!("{binding} has no row in faces.toml"));
        }
    }
    let of_stores = root.join("core/src/stores");
    for store in folders(&of_stores).iter().filter(|name| of_stores.join(name).join("client.rs").is_file()) {
        if !stores.iter().any(|row| row.folder == **store) {
            wrong.push(format!("the store {store} has no row in stores.toml"));
        }
    }
    for face in faces.iter().filter(|face| !root.join(&face.folder).is_dir()) {
        wrong.push(format!("faces.toml: {} is to live in {}, which is not there", face.name, face.folder));
    }
    for face in faces {
        for unknown in face.stores.iter().filter(|name| !stores.iter().any(|store| store.name == **name)) {
            wrong.push(format!("faces.toml: {} has the store {unknown}, which has no row in stores.toml", face.name));
        }
    }
    let joins = |face: &Face| face.joins.as_ref().is_some_and(|joins| !stores.iter().any(|store| store.name == *joins));
    for face in faces.iter().filter(|face| joins(face)) {
        wrong.push(format!("{} joins a store that has no row in stores.toml", face.folder));
    }
    let is_there = |store: &&Store| [&of_stores, root].iter().any(|home| home.join(&store.folder).is_dir());
    for store in stores.iter().filter(|store| !is_there(store)) {
        wrong.push(format!("stores.toml: {} is to live in {}, which is not there", store.name, store.folder));
    }
    for scenario in scenarios {
        let teams: Vec<_> = teams(scenario, faces).iter().map(|team| team_name(team)).collect();
        let only = scenario.only.iter().flat_map(|only| &only.teams);
        let met = faces.iter().filter_map(|face| face.only.as_ref()?.also.get(&scenario.name)).flatten();
        for stale in only.chain(met).filter(|team| !teams.contains(team)) {
            wrong.push(format!("{}: there is no team {stale}", scenario.name));
        }
    }
    let also = faces.iter().filter_map(|face| face.only.as_ref()).flat_map(|only| only.also.keys());
    for stale in also.filter(|name| !scenarios.iter().any(|scenario| scenario.name == **name)) {
        wrong.push(format!("a peer meets more faces in {stale}, which is no scenario"));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{Meets, Part};
    use crate::scenario;
    use serde_json::json;

    fn face(name: &str) -> Face {
        Face { name: name.into(), folder: "core".into(), ..Face::default() }
    }

    fn store(name: &str) -> Store {
        let uri = Some("x://".into());
        Store { name: name.into(), folder: name.into(), uri, ..Store::default() }
    }

    fn scenario(name: &str, head: &str) -> Scenario {
        let mut scenario =
            scenario::parse(&format!("title = 'x'\n{head}\nsteps = [{{ on = 'a', do = 'list' }}]")).unwrap();
        scenario.name = name.into();
        scenario
    }

    #[test]
    fn a_forgotten_triple_and_a_silent_skip_are_found() {
        let scenarios = [scenario("one", ""), scenario("two", "mixed = true")];
        let expected = all(&scenarios, &[face("a"), face("b"), face("c")], &[store("s"), store("t")]);
        assert_eq!(expected.len(), (3 + 3 + 3) * 2);
        let mut outcomes: BTreeMap<_, _> = expected.iter().map(|t| (t.clone(), Outcome::Passed)).collect();
        assert_eq!(unaccounted(&expected, &outcomes), [""; 0]);
        let forgotten = outcomes.pop_first().unwrap().0;
        *outcomes.first_entry().unwrap().get_mut() = Outcome::Skipped(" ".into());
        let found = unaccounted(&expected, &outcomes);
        assert_eq!(found.len(), 2);
        assert!(found[0].contains(&forgotten.scenario) && found[0].contains("neither"), "{found:?}");
        assert!(found[1].contains("without a reason"), "{found:?}");
    }

    #[test]
    fn two_faces_make_one_pair() {
        let mixed = scenario("m", "mixed = true");
        let names = |faces: &[Face]| teams(&mixed, faces).iter().map(|team| team_name(team)).collect::<Vec<_>>();
        assert_eq!(names(&[face("a")]), ["a"]);
        assert_eq!(names(&[face("a"), face("b")]), ["a", "b", "a+b"]);
        assert_eq!(names(&[face("a"), face("b"), face("c")]), ["a", "b", "c", "a+b", "b+c", "c+a"]);
    }

    #[test]
    fn one_face_of_each_language_meet_where_there_are_actors_enough() {
        let of = |name: &str, folder: &str| Face { folder: folder.into(), ..face(name) };
        let faces = [of("a", "x"), of("b", "y"), of("c", "y"), of("d", "z")];
        let steps = |on: &str| {
            format!("title = 'x'\nmixed = true\nsteps = [{{ on = {on}, do = 'list', background = true, as = 'l' }}]")
        };
        let last = |on: &str, name: &str, faces: &[Face]| {
            let mut scenario = scenario::parse(&steps(on)).unwrap();
            scenario.name = name.into();
            teams(&scenario, faces).last().map(|team| team_name(team)).unwrap()
        };
        assert_eq!(last("['a', 'b', 'c']", "", &faces), "a+b+d");
        assert_eq!(last("['a', 'b']", "", &faces), "d+a");
        let part = Part { scenarios: Vec::new(), reason: "it is the core of another".into() };
        let five = [&faces[..], &[Face { daily: Some(part), ..of("e", "v") }]].concat();
        let in_turn: BTreeSet<_> = ["c", "d", "e", "f"].map(|name| last("['a', 'b', 'c']", name, &five)).into();
        let all = ["a+b+d", "b+d+e", "d+e+a", "e+a+b"].map(String::from);
        assert_eq!(in_turn, BTreeSet::from(all), "they take turns, also a language whose face plays little alone");
        let mut unable = five;
        unable[0].cannot = BTreeMap::from([("list".into(), "no list".into())]);
        assert_eq!(last("['a', 'b', 'c']", "", &unable), "b+d+e");
    }

    #[test]
    fn one_mixed_team_plays_every_day() {
        let of = |name: &str, folder: &str| Face { folder: folder.into(), ..face(name) };
        let faces = [of("a", "x"), of("b", "y"), of("c", "z")];
        let daily = |scenario: &Scenario| -> Vec<_> {
            let teams = teams(scenario, &faces).into_iter();
            teams.filter(|team| mixed_day_off(scenario, team, &faces).is_none()).map(|t| team_name(&t)).collect()
        };
        assert_eq!(daily(&scenario("m", "")), ["a", "b", "c"]);
        let pairs: BTreeSet<_> =
            ["m", "n", "o"].map(|name| daily(&scenario(name, "mixed = true"))[3..].concat()).into();
        assert_eq!(pairs, BTreeSet::from(["a+b", "b+c", "c+a"].map(String::from)), "they take turns");
        let three =
            "title = 'x'\nmixed = true\nsteps = [{ on = ['a', 'b', 'c'], do = 'list', background = true, as = 'l' }]";
        assert_eq!(daily(&scenario::parse(three).unwrap()), ["a", "b", "c", "a+b+c"]);
        let only = "mixed = true\nonly = { teams = ['a+b'], reason = 'slow' }";
        assert_eq!(daily(&scenario("m", only)).len(), 6, "a scenario that names its teams is not asked again");
        let pair = [faces[1].clone(), faces[2].clone()];
        assert!(["m", "n"].iter().any(|name| mixed_day_off(&scenario(name, "mixed = true"), &pair, &faces).is_some()));
    }

    #[test]
    fn faces_take_turns_at_a_store_that_plays_a_part() {
        let faces = ["a", "b", "c", "d", "e"].map(face);
        let names = ["m", "n", "o", "p", "q"];
        let part = Part { scenarios: names.map(String::from).into(), reason: "it is the same".into() };
        let partly = Store { only: Some(part), ..store("s") };
        let plays = |scenario: &Scenario, store: &Store, faces: &[Face]| -> Vec<_> {
            let is_on = |face: &&Face| day_off(scenario, std::slice::from_ref(*face), store, faces).is_none();
            faces.iter().filter(is_on).map(|face| face.name.clone()).collect()
        };
        let of = |name| plays(&scenario(name, ""), &partly, &faces);
        assert!(names.iter().all(|name| of(name).len() == 2));
        assert_eq!(names.map(of).concat().into_iter().collect::<BTreeSet<_>>().len(), faces.len(), "each has its turn");
        assert_ne!(of("m"), plays(&scenario("m", ""), &Store { name: "t".into(), ..partly.clone() }, &faces));
        assert_eq!(plays(&scenario("m", ""), &store("s"), &faces).len(), faces.len());
        assert_eq!(
            plays(&scenario("m", "only = { teams = ['a', 'b', 'c'], reason = 'slow' }"), &partly, &faces).len(),
            3
        );
        let mut unable = faces.clone();
        for face in &mut unable[..4] {
            face.cannot = BTreeMap::from([("m".into(), "no m".into())]);
        }
        assert!(plays(&scenario("m", ""), &partly, &unable).contains(&"e".into()), "whoever can plays");
        assert_eq!(plays(&scenario("m", ""), &partly, &faces[..2]).len(), 2);
    }

    #[test]
    fn a_library_meets_each_face_in_both_orders_where_its_locks_are() {
        let peer = Face { joins: Some("s".into()), ..face("theirs") };
        let faces = [face("a"), peer, face("b")];
        let (met, alone) = (scenario("m", "peer = true"), scenario("x", ""));
        let names: Vec<_> = teams(&met, &faces).iter().map(|team| team_name(team)).collect();
        assert_eq!(names, ["a+theirs", "theirs+a", "b+theirs", "theirs+b"]);
        assert_eq!(teams(&alone, &faces).len(), 2, "it plays nothing else");
        let names: Vec<_> =
            teams(&scenario("m", "peer = 'second'"), &faces).iter().map(|team| team_name(team)).collect();
        assert_eq!(names, ["a+theirs", "b+theirs"]);
        let beside = [face("a"), Face { beside: true, ..faces[1].clone() }];
        assert!(teams(&met, &beside).is_empty(), "it waits for ours, and ours are refused beside its own");
        let names: Vec<_> =
            teams(&scenario("m", "peer = 'beside'"), &beside).iter().map(|team| team_name(team)).collect();
        assert_eq!(names, ["a+theirs"]);
        let triples = all(&[met], &faces, &[store("s"), store("t")]);
        assert_eq!(triples.iter().filter(|triple| triple.store == "s").count(), 4);
        assert_eq!(triples.len(), 4);
        let found = not_in_rows(Path::new("/nowhere"), &faces, &[store("t")], &[]);
        assert!(found.iter().any(|wrong| wrong.contains("joins a store")), "{found:?}");
    }

    #[test]
    fn a_store_outside_the_crate_is_met_by_the_faces_that_have_it() {
        let faces = [face("a"), face("b"), face("c")];
        let outside = Store { faces: vec!["a".into(), "b".into()], ..store("s") };
        let teams: Vec<_> =
            all(&[scenario("m", "mixed = true")], &faces, &[outside]).into_iter().map(|t| t.team).collect();
        assert_eq!(teams, ["a", "a+b", "b"]);
        assert!(
            not_in_rows(Path::new(env!("CARGO_MANIFEST_DIR")), &[], &[store("src")], &[]).is_empty(),
            "from the root"
        );
    }

    /// Why it is not played on a day on which everything is asked for, or on another.
    fn why_not(scenario: &Scenario, team: &[Face], store: &Store, promises: &Value, full: bool) -> Option<String> {
        let never = reason(scenario, team, store, promises);
        never.or_else(|| day_off(scenario, team, store, &[]).filter(|_| !full))
    }

    #[test]
    fn each_reason_is_given() {
        let promises = json!({ "shared": false, "fair": true });
        let mut limited = face("a");
        limited.cannot = BTreeMap::from([("list".into(), "no list".into()), ("odd".into(), "it is odd".into())]);
        let mut serverless = store("s");
        serverless.cannot = BTreeMap::from([("restart".into(), "no server".into())]);
        let why = |scenario: &Scenario, team: &[Face]| why_not(scenario, team, &serverless, &promises, false);
        assert_eq!(why(&scenario("x", ""), &[face("b")]), None);
        assert_eq!(why(&scenario("x", ""), std::slice::from_ref(&limited)).unwrap(), "a: no list");
        assert_eq!(why(&scenario("x", "needs = ['fair']"), &[face("b")]), None);
        assert_eq!(why(&scenario("x", "needs = ['shared']"), &[face("b")]).unwrap(), "s does not promise shared");
        assert_eq!(why(&scenario("x", "needs = ['restart']"), &[face("b")]).unwrap(), "s: no server");
        assert!(why(&scenario("x", "mixed = true"), &[face("b"), face("c")]).unwrap().contains("two processes"));
        let only = scenario("x", "only = { teams = ['b'], reason = 'slow' }");
        assert_eq!(why(&only, &[face("c")]).unwrap(), "slow");
        assert_eq!(why(&only, &[face("b")]), None);
        assert_eq!(why_not(&only, &[face("c")], &serverless, &promises, true), None);
        let part = Part { scenarios: vec!["y".into()], reason: "it is the same".into() };
        let partly = Store { only: Some(part), ..store("p") };
        let why_partly = |name, full| why_not(&scenario(name, ""), &[face("b")], &partly, &json!({}), full);
        assert_eq!(why_partly("x", false).unwrap(), "p: it is the same");
        assert_eq!((why_partly("y", false), why_partly("x", true)), (None, None));
        let brief = Part { scenarios: vec!["y".into()], reason: "it is the same library".into() };
        let other = Face { daily: Some(brief), ..face("o") };
        let why_daily = |name, full| {
            let scenario = scenario(name, "mixed = true");
            assert!(teams(&scenario, &[face("a"), other.clone()]).iter().all(|team| team.len() == 1));
            why_not(&scenario, std::slice::from_ref(&other), &store("s"), &json!({}), full)
        };
        assert_eq!(why_daily("x", false).unwrap(), "o: it is the same library");
        assert_eq!((why_daily("y", false), why_daily("x", true)), (None, None));
        let also = BTreeMap::from([("y".into(), vec!["c+theirs".into()])]);
        let slow = Meets { faces: vec!["b".into()], also, reason: "it is slow".into() };
        let peer = Face { joins: Some("s".into()), only: Some(slow), ..face("theirs") };
        let met = scenario("x", "peer = true");
        let why_met = |with| why_not(&met, &[face(with), peer.clone()], &store("s"), &json!({}), false);
        assert_eq!((why_met("c").as_deref(), why_met("b")), (Some("it is slow"), None));
        assert_eq!(why_not(&met, &[face("c"), peer.clone()], &store("s"), &json!({}), true), None);
        let in_y = |team: &[Face]| why_not(&scenario("y", "peer = true"), team, &store("s"), &json!({}), false);
        assert_eq!(in_y(&[face("c"), peer.clone()]), None);
        assert_eq!(in_y(&[peer.clone(), face("c")]).as_deref(), Some("it is slow"));
        let found = not_in_rows(Path::new(env!("CARGO_MANIFEST_DIR")), &[peer], &[], &[]);
        assert!(found.iter().any(|wrong| wrong.contains("in y, which is no scenario")), "{found:?}");
        let alone = Face { one_thread: Some("it has one thread".into()), ..face("c") };
        assert_eq!(why(&scenario("x", ""), std::slice::from_ref(&alone)), None);
        let two = "title = 'x'\nsteps = [{ on = ['a', 'b'], do = 'list', background = true, as = 'l' }]";
        assert!(why(&scenario::parse(two).unwrap(), &[alone]).unwrap().contains("it has one thread"));
        limited.cannot = BTreeMap::from([("scenario x".into(), "it is x".into()), ("odd".into(), "it is odd".into())]);
        assert_eq!(why(&scenario("x", ""), std::slice::from_ref(&limited)).unwrap(), "a: it is x");
        assert_eq!(why(&scenario("y", ""), std::slice::from_ref(&limited)), None);
        assert_eq!(why(&scenario("odd", ""), &[limited]).unwrap(), "a: it is odd");
    }

    #[test]
    fn a_store_or_binding_without_a_row_is_found() {
        let root = std::env::temp_dir().join(format!("lockwright-rows-{}", std::process::id()));
        for folder in ["core/src/stores/s", "core/src/stores/t", "bindings-c"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::write(root.join("core/src/stores/t/client.rs"), "").unwrap();
        let found = not_in_rows(&root, &[face("a")], &[store("s"), store("gone")], &[]);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(
            found[0].contains("bindings-c") && found[1].contains("store t") && found[2].contains("gone"),
            "{found:?}"
        );
        let stale = scenario("x", "only = { teams = ['z'], reason = 'slow' }");
        assert!(not_in_rows(Path::new("/nowhere"), &[], &[], &[stale])[0].contains("no team z"));
    }
}
