//! The description of the interface.

use axum::Json;
use serde_json::{Value, json};
use utoipa::openapi::OpenApi;

/// Routes whose body is a graph document.
const DOCUMENTS: [(&str, &str); 3] = [("/graphs", "post"), ("/graphs/{id}", "put"), ("/plan", "post")];
const GRAPH: &str = "#/components/schemas/ServiceGraphDocument";

/// This description.
#[utoipa::path(get, path = "/openapi.json", tag = "node", operation_id = "openapi",
    responses((status = 200, content_type = "application/json", description = "OpenAPI 3.1.")))]
pub(super) async fn get() -> Json<Value> {
    Json(super::openapi())
}

/// Adds what the routes themselves do not tell: the title, the schema of graph documents, and how one logs in; `closed` are the
/// paths that ask for a login, if the node does.
pub(super) fn complete(api: OpenApi, closed: &[String]) -> Value {
    let mut api = serde_json::to_value(api).unwrap_or_default();
    api["info"] = json!({
        "title": "Weir node",
        "description": "Service graphs on one node: what should run, what runs, and what happens.",
        "version": env!("CARGO_PKG_VERSION"),
        "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
    });
    api["servers"] = json!([{ "url": weir_api::BASE }]);
    let mut schema = weir_model::graph::sffg_json_schema();
    relocate(&mut schema);
    api["components"]["schemas"]["ServiceGraphDocument"] = schema;
    let content = json!({
        "application/json": { "schema": { "$ref": GRAPH } },
        "application/yaml": { "schema": { "$ref": GRAPH } },
    });
    for (path, method) in DOCUMENTS {
        api["paths"][path][method]["requestBody"] = json!({ "required": true, "content": content });
    }
    let text = json!({ "type": "string", "description": "The same as text, in JSON or YAML." });
    let list = json!({ "type": "array", "items": { "anyOf": [{ "$ref": GRAPH }, text] } });
    api["paths"]["/graphs"]["put"]["requestBody"] =
        json!({ "required": true, "content": { "application/json": { "schema": list } } });
    api["paths"]["/graphs/{id}"]["get"]["responses"]["200"]["content"] =
        json!({ "application/json": { "schema": { "$ref": GRAPH } } });
    log_in(&mut api, closed);
    api
}

/// Describes the login.
fn log_in(api: &mut Value, closed: &[String]) {
    api["components"]["securitySchemes"]["token"] = json!({
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "A JSON Web Token that is signed for each request with an Ed25519 key that the node knows (docs/access.md), or the \
                        admin token. Without 'weir node --login' none is asked for.",
    });
    api["security"] = json!([{}, { "token": [] }]);
    let problem = |description: &str| {
        let schema = json!({ "$ref": "#/components/schemas/Problem" });
        json!({ "description": description, "content": { "application/problem+json": { "schema": schema } } })
    };
    let answers = [
        ("401", "The node asks for a login, and there is none, or none that it knows."),
        ("403", "Who asks may not."),
        ("429", "The tenant asks more often than its quota."),
        ("503", "The node has seen more tokens lately than it can remember."),
    ];
    let paths = api["paths"].as_object_mut().into_iter().flatten();
    for (path, item) in paths {
        for operation in item.as_object_mut().into_iter().flat_map(|o| o.values_mut()) {
            if !closed.contains(path) {
                operation["security"] = json!([]);
                continue;
            }
            for (status, description) in answers {
                let responses = &mut operation["responses"];
                if responses[status].is_null() {
                    responses[status] = problem(description);
                }
            }
        }
    }
}

/// References within the schema count from the whole description here.
fn relocate(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(to)) = map.get_mut("$ref")
                && let Some(name) = to.strip_prefix("#/$defs/")
            {
                *to = format!("{GRAPH}/$defs/{name}");
            }
            map.values_mut().for_each(relocate);
        }
        Value::Array(items) => items.iter_mut().for_each(relocate),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The description as it is kept for others: clients in other languages are made from it.
    const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");

    #[test]
    fn the_description_that_is_kept_is_this_one() {
        let text = serde_json::to_string_pretty(&super::super::openapi()).unwrap() + "\n";
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(KEPT, &text).unwrap();
        }
        let kept = std::fs::read_to_string(KEPT).unwrap_or_default();
        assert!(
            kept == text,
            "docs/openapi.json is not up to date: BLESS=1 cargo test -p weir-node --lib openapi"
        );
    }

    /// All references of a description.
    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str));
                map.values().for_each(|v| references(v, found));
            }
            Value::Array(items) => items.iter().for_each(|v| references(v, found)),
            _ => {}
        }
    }

    #[test]
    fn every_route_is_described_and_every_reference_leads_somewhere() {
        let api = super::super::openapi();
        assert!(api["openapi"].as_str().unwrap().starts_with("3.1"), "{}", api["openapi"]);
        let mut routes = Vec::new();
        for (path, item) in api["paths"].as_object().unwrap() {
            routes.extend(item.as_object().unwrap().keys().map(|m| format!("{m} {path}")));
        }
        routes.sort();
        let expected = [
            "delete /graphs/{id}",
            "delete /images/{name}",
            "delete /keys/{name}",
            "delete /queries/{name}",
            "delete /tenants/{name}",
            "get /audit",
            "get /devices",
            "get /domain",
            "get /events",
            "get /events/kept",
            "get /graphs",
            "get /graphs/{id}",
            "get /graphs/{id}/config",
            "get /graphs/{id}/document",
            "get /graphs/{id}/functions/{function}/handlers/{name}",
            "get /graphs/{id}/functions/{function}/inside",
            "get /graphs/{id}/functions/{function}/life",
            "get /graphs/{id}/functions/{function}/log",
            "get /graphs/{id}/functions/{function}/snapshot",
            "get /graphs/{id}/revisions",
            "get /graphs/{id}/revisions/{revision}",
            "get /graphs/{id}/status",
            "get /health",
            "get /images",
            "get /images/{name}",
            "get /keys",
            "get /metrics",
            "get /openapi.json",
            "get /queries",
            "get /queries/{name}",
            "get /tenants",
            "get /tenants/{name}",
            "get /usage",
            "get /whoami",
            "post /graphs",
            "post /graphs/{id}/capture",
            "post /graphs/{id}/confirm",
            "post /graphs/{id}/move-step",
            "post /graphs/{id}/rollback",
            "post /graphs/{id}/trace",
            "post /images/{name}/tables",
            "post /measure",
            "post /metrics/token",
            "post /plan",
            "put /graphs",
            "put /graphs/{id}",
            "put /graphs/{id}/functions/{function}/handlers/{name}",
            "put /graphs/{id}/functions/{function}/life",
            "put /graphs/{id}/functions/{function}/snapshot",
            "put /graphs/{id}/life",
            "put /images/{name}",
            "put /keys/{name}",
            "put /queries/{name}",
            "put /tenants/{name}",
        ];
        assert_eq!(routes, expected);
        let mut found = Vec::new();
        references(&api, &mut found);
        assert!(found.len() > 20);
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(api.pointer(pointer).is_some(), "{reference} leads nowhere");
        }
        for (path, method) in DOCUMENTS {
            assert!(api["paths"][path][method]["responses"].is_object(), "{method} {path} is not a route");
        }
    }

    /// OpenAPI's own schema of descriptions (https://spec.openapis.org/oas/3.1/schema/2022-10-07, Apache-2.0), which leaves
    /// open what the schemas in them look like.
    const OPENAPI: &str = include_str!("../../tests/openapi-3.1.schema.json");

    #[test]
    fn the_description_is_valid_openapi() {
        let api = super::super::openapi();
        let valid = jsonschema::draft202012::new(&serde_json::from_str(OPENAPI).unwrap()).unwrap();
        let errors = valid.iter_errors(&api).map(|e| format!("{}: {e}", e.instance_path()));
        assert_eq!(errors.collect::<Vec<_>>(), Vec::<String>::new());
        for (name, schema) in api["components"]["schemas"].as_object().unwrap() {
            jsonschema::draft202012::meta::validate(schema).unwrap_or_else(|e| panic!("{name}: {e}"));
        }
        let mut without = api.clone();
        without["paths"]["/devices"]["get"]["responses"]["200"]
            .as_object_mut()
            .unwrap()
            .remove("description");
        assert!(!valid.is_valid(&without), "a response without a description is refused");
    }

    #[test]
    fn operations_have_names_of_their_own_and_parameters_are_those_of_the_path() {
        let api = super::super::openapi();
        let mut names = std::collections::BTreeSet::new();
        for (path, item) in api["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let name = operation["operationId"].as_str().unwrap();
                assert!(names.insert(name), "{method} {path}: a second operation {name}");
                let parameters = operation["parameters"].as_array().into_iter().flatten();
                let of_path = parameters.filter(|p| p["in"] == "path");
                let mut given: Vec<_> = of_path.map(|p| p["name"].as_str().unwrap().to_owned()).collect();
                let parts = path.split('/').filter_map(|p| p.strip_prefix('{')?.strip_suffix('}'));
                let mut wanted: Vec<_> = parts.map(str::to_owned).collect();
                given.sort();
                wanted.sort();
                assert_eq!(given, wanted, "{method} {path}");
            }
        }
    }
}
