//! `lockwright-pack component MODULE OUT` makes a WASI component of a module that has its types in a section;
//! `lockwright-pack compose PLUGIN COMPONENT OUT` puts a component into one that imports what it exports;
//! `lockwright-pack javascript MODULE FOLDER NAME` makes what JavaScript imports, with its types, of a module of
//! wasm-bindgen's.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use wac_graph::types::Package;
use wac_graph::{CompositionGraph, EncodeOptions, plug};
use wasm_encoder::RawSection;
use wasmparser::{Parser, Payload};

type Done = Result<(), Box<dyn Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["component", module, out] => component(module, out),
        ["compose", plugin, component, out] => compose(plugin, component, out),
        ["javascript", module, folder, name] => javascript(module, folder, name),
        _ => Err("say component MODULE OUT, compose PLUGIN COMPONENT OUT, or javascript MODULE FOLDER NAME".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lockwright-pack: {error}");
            ExitCode::FAILURE
        }
    }
}

fn component(module: &str, out: &str) -> Done {
    let module = std::fs::read(module)?;
    let component = wit_component::ComponentEncoder::default().validate(true).module(&module)?.encode()?;
    Ok(std::fs::write(out, without_names(&component)?)?)
}

/// The component without the names of its parts, which only they see who print it as text.
fn without_names(component: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut kept = wasm_encoder::Component::new();
    let mut depth = 0;
    for payload in Parser::new(0).parse_all(component) {
        let payload = payload?;
        let is_names = matches!(&payload, Payload::CustomSection(section) if section.name() == "component-name");
        if let Some((id, range)) = payload.as_section().filter(|_| depth == 1 && !is_names) {
            let data = &component[usize::try_from(range.start)?..usize::try_from(range.end)?];
            kept.section(&RawSection { id, data });
        }
        match payload {
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth -= 1,
            _ => {}
        }
    }
    Ok(kept.finish())
}

fn compose(plugin: &str, component: &str, out: &str) -> Done {
    let mut graph = CompositionGraph::new();
    let plugin = Package::from_file("plugin", None, plugin, graph.types_mut())?;
    let plugin = graph.register_package(plugin)?;
    let component = Package::from_file("component", None, component, graph.types_mut())?;
    let component = graph.register_package(component)?;
    plug(&mut graph, vec![component], plugin)?;
    Ok(std::fs::write(out, graph.encode(EncodeOptions::default())?)?)
}

fn javascript(module: &str, folder: &str, name: &str) -> Done {
    let mut generator = wasm_bindgen_cli_support::Bindgen::new();
    generator.input_path(module).typescript(true).out_name(name).remove_name_section(true).web(true)?;
    Ok(generator.generate(Path::new(folder))?)
}
