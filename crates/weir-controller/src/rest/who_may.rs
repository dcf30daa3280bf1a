//! Who may use which route of a controller.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use tower::ServiceExt;
use weir_api::problem::Problem;
use weir_api::requests::RequestAnswer;
use weir_auth::secret::{JoinTerms, Secret, Use};
use weir_auth::{Owner, Principal, Role, Scope, TenantKind};
use weir_rest::login::{Caller, Login, Names};
use weir_tls::authority::Authority;

use super::{openapi, router};
use crate::controller::{Controller, Settings};
use crate::requests::Kept;
use crate::requests::offer::Access;
use crate::store::{DomainGraph, Member, Part, Store};

type Person = (&'static str, Role, Option<&'static str>, Option<&'static str>, Option<&'static str>);

/// Those that the columns of the table are of: name, role, tenant, graph, function.
const PEOPLE: [Person; 7] = [
    ("operator", Role::Operator, None, None, None),
    ("reader", Role::ReadOnly, None, None, None),
    ("acme", Role::Tenant, Some("acme"), None, None),
    ("acme-reader", Role::ReadOnly, Some("acme"), None, None),
    ("acme-graph", Role::Tenant, Some("acme"), Some("fw"), None),
    ("acme-part", Role::Tenant, Some("acme"), Some("fw"), Some("fw")),
    ("evil", Role::Tenant, Some("evil"), None, None),
];

const DOCUMENT: &str = "id: fw\nname: fw\ntenant: acme\nsaps: [{id: a, type: interface, interface: {if-name: lan}}]\n\
    flowrules: [{id: r, priority: 1, match: {port_in: 'sap:a'}, actions: {output_to_port: 'sap:a'}}]\n";

const QUESTION: &str = r#"{"measure": "mem_util", "graph": "fw"}"#;
const QUERY: &str = r#"{"ask": {"measure": "mem_util", "graph": "fw"}, "every": 60000}"#;

/// Every route, a request of it about graph fw of tenant acme, and who may: the operator, a reader of everything, acme, a reader
/// of acme's, acme limited to the graph, acme limited to function fw of it, and the tenant evil. `open`: who has no login may. A request
/// that is allowed need not succeed: no node is connected.
const ROUTES: &[(&str, &str, &str, &str)] = &[
    ("delete /graphs/{id}", "/graphs/fw", "", "x - x - x - -"),
    ("delete /keys/{name}", "/keys/nobody", "", "x - - - - - -"),
    ("delete /nodes/{name}", "/nodes/n2", "", "x - - - - - -"),
    ("delete /policies/{name}", "/policies/none", "", "x - - - - - -"),
    ("delete /tenants/{name}", "/tenants/nobody", "", "x - - - - - -"),
    ("get /audit", "/audit", "", "x x - - - - -"),
    ("get /devices", "/devices", "", "x x - - - - -"),
    ("get /domain", "/domain", "", "x x - - - - -"),
    ("get /events", "/events", "", "x x x x x x x"),
    ("get /events/kept", "/events/kept", "", "x x x x x x x"),
    ("get /graphs", "/graphs", "", "x x x x x x x"),
    ("get /graphs/{id}", "/graphs/fw", "", "x x x x x - -"),
    ("get /graphs/{id}/config", "/graphs/fw/config", "", "x x x x x - -"),
    ("get /graphs/{id}/document", "/graphs/fw/document", "", "x x x x x - -"),
    (
        "get /graphs/{id}/functions/{function}/handlers/{name}",
        "/graphs/fw/functions/fw/handlers/count",
        "",
        "x x x x x x -",
    ),
    ("get /graphs/{id}/functions/{function}/inside", "/graphs/fw/functions/fw/inside", "", "x - - - - - -"),
    ("get /graphs/{id}/functions/{function}/life", "/graphs/fw/functions/fw/life", "", "x x x x x x -"),
    (
        "get /graphs/{id}/functions/{function}/snapshot",
        "/graphs/fw/functions/fw/snapshot",
        "",
        "x - x - x - -",
    ),
    (
        "put /graphs/{id}/functions/{function}/life",
        "/graphs/fw/functions/fw/life",
        r#"{"state": "none"}"#,
        "x - x - x - -",
    ),
    ("put /graphs/{id}/life", "/graphs/fw/life", r#"{"state": "none"}"#, "x - x - x - -"),
    (
        "put /graphs/{id}/functions/{function}/snapshot",
        "/graphs/fw/functions/fw/snapshot",
        "",
        "x - x - x - -",
    ),
    (
        "post /graphs/{id}/functions/{function}/move",
        "/graphs/fw/functions/fw/move",
        r#"{"to": "n2"}"#,
        "x - x - x - -",
    ),
    ("get /graphs/{id}/functions/{function}/log", "/graphs/fw/functions/fw/log", "", "x x x x x x -"),
    ("get /graphs/{id}/revisions", "/graphs/fw/revisions", "", "x x x x x - -"),
    ("get /graphs/{id}/revisions/{revision}", "/graphs/fw/revisions/1", "", "x x x x x - -"),
    ("get /graphs/{id}/status", "/graphs/fw/status", "", "x x x x x - -"),
    ("get /health", "/health", "", "open"),
    ("get /images", "/images", "", "x x x x x x x"),
    ("get /images/{name}", "/images/firewall", "", "x x x x x x x"),
    ("delete /images/{name}", "/images/nobody", "", "x - - - - - -"),
    ("put /images/{name}", "/images/nobody", "name: other", "x - - - - - -"),
    ("get /keys", "/keys", "", "x x - - - - -"),
    ("get /links", "/links", "", "x x - - - - -"),
    ("put /links/{a}/{b}", "/links/n1/nobody", "{}", "x - - - - - -"),
    ("delete /links/{a}/{b}", "/links/n1/nobody", "", "x - - - - - -"),
    ("get /metrics", "/metrics", "", "x x x x x x x"),
    ("get /nodes", "/nodes", "", "x x - - - - -"),
    ("get /nodes/{name}", "/nodes/n1", "", "x x - - - - -"),
    ("get /openapi.json", "/openapi.json", "", "open"),
    ("get /policies", "/policies", "", "x x - - - - -"),
    ("get /policies/{name}", "/policies/none", "", "x x - - - - -"),
    ("get /requests", "/requests", "", "x x x x x x x"),
    ("get /requests/{id}", "/requests/request-1", "", "x x x x - - -"),
    ("delete /requests/{id}", "/requests/request-1", "", "x - x - - - -"),
    ("post /requests", "/requests", "FromNetfront -> ToNetfront;", "x - x - - - x"),
    ("post /requests/query", "/requests/query", "noloops", "x x x x - - x"),
    ("delete /queries/{name}", "/queries/nobody", "", "x x x x x x x"),
    ("get /queries", "/queries", "", "x x x x x x x"),
    ("get /queries/{name}", "/queries/nobody", "", "x x x x x x x"),
    ("put /queries/{name}", "/queries/new", QUERY, "x x x x x - -"),
    ("post /measure", "/measure", QUESTION, "x x x x x - -"),
    ("get /usage", "/usage", "", "x x x x x x x"),
    ("get /accounting", "/accounting", "", "x x x x x x x"),
    ("get /tenants", "/tenants", "", "x x x x x x x"),
    ("get /tenants/{name}", "/tenants/acme", "", "x x x x - - -"),
    ("get /whoami", "/whoami", "", "x x x x x x x"),
    ("put /nodes/{name}", "/nodes/n1", r#"{"cordoned": false}"#, "x - - - - - -"),
    ("post /graphs", "/graphs", DOCUMENT, "x - x - x - -"),
    ("post /graphs/{id}/capture", "/graphs/fw/capture", "{}", "x x x x x - -"),
    ("post /graphs/{id}/confirm", "/graphs/fw/confirm", "", "x - x - x - -"),
    ("post /graphs/{id}/rollback", "/graphs/fw/rollback?revision=1", "", "x - x - x - -"),
    ("post /graphs/{id}/trace", "/graphs/fw/trace", "{}", "x x x x x - -"),
    ("post /metrics/token", "/metrics/token", "", "x - - - - - -"),
    ("post /nodes/hello", "/nodes/hello", "{}", "open"),
    ("post /nodes/join", "/nodes/join", "{}", "open"),
    ("post /nodes/renew", "/nodes/renew", "{}", "open"),
    ("post /nodes/{name}/drain", "/nodes/n1/drain", "{}", "x - - - - - -"),
    ("post /plan", "/plan", DOCUMENT, "x x x x x - -"),
    ("post /tokens", "/tokens", "{}", "x - - - - - -"),
    ("put /graphs", "/graphs", "LIST", "x - x - x - -"),
    ("put /graphs/{id}", "/graphs/fw", DOCUMENT, "x - x - x - -"),
    (
        "put /graphs/{id}/functions/{function}/handlers/{name}",
        "/graphs/fw/functions/fw/handlers/reset",
        "1",
        "x - x - x x -",
    ),
    ("put /keys/{name}", "/keys/new", "{}", "x - - - - - -"),
    ("put /policies/{name}", "/policies/new", "{}", "x - - - - - -"),
    ("put /tenants/{name}", "/tenants/new", "[]", "x - - - - - -"),
];

/// A controller with a node that is away, and a graph of acme's on it.
fn controller(folder: &std::path::Path) -> Arc<Controller> {
    let store = Arc::new(Store::open(&folder.join("controller.db")).unwrap());
    let secret = Secret::generate(Use::Join).unwrap();
    store.keep_token(&JoinTerms { hash: secret.hash(), expires: 9, uses: 2 }, 1).unwrap();
    for name in ["n1", "n2"] {
        let member = Member { number: name.into(), joined: 1, certificate: 1, cordoned: false };
        store.join(&secret, 1, name, &member).unwrap();
    }
    let document = serde_json::json!({ "id": "fw", "name": "fw", "tenant": "acme", "SFs": [{"id": "fw"}] });
    let graph = DomainGraph {
        document,
        text: DOCUMENT.into(),
        tenant: Some("acme".into()),
        functions: BTreeMap::from([("fw".into(), "n1".into())]),
        saps: BTreeMap::from([("a".into(), "n1".into())]),
        secrets: BTreeMap::default(),
        memory: 0,
        cpu: 0,
        tunnels: Vec::new(),
        moved: std::collections::BTreeSet::new(),
        moving: None,
        parts: BTreeMap::from([("n1".into(), Part { document: DOCUMENT.into(), tag: None })]),
    };
    store.propose("fw", &graph, &weir_store::history::Note::default()).unwrap();
    store.confirm("fw", &graph).unwrap();
    let login = Login::on(store.database().clone(), Names::default()).unwrap();
    let authority = Arc::new(Authority::new("test", SystemTime::now()).unwrap());
    let settings = Settings { certificates: Duration::from_secs(3600), ..Settings::default() };
    Controller::new(store, login, authority, settings).unwrap()
}

async fn ask(router: &Router, method: &str, path: &str, body: &str, who: Option<Principal>) -> (u16, String) {
    let mut request =
        Request::builder().method(method).uri(format!("/v1{path}")).header("if-match", "\"none\"");
    if let Some(who) = who {
        request = request.extension(Caller::new(who));
    }
    let request = request.body(Body::from(body.to_owned())).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    if status < 400 {
        return (status, String::new());
    }
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (status, serde_json::from_str::<Problem>(&text).map(|p| p.detail).unwrap_or(text))
}

/// A request of acme's, however often it was ended.
fn request(controller: &Controller) {
    let answer = RequestAnswer {
        id: None,
        tenant: Some("acme".into()),
        node: "n1".into(),
        until: None,
        modules: Vec::new(),
        findings: Vec::new(),
    };
    let access = Access { if_name: "lan".into(), vlan: None, share: None };
    controller.edit(|v| {
        v.graphs.insert("request-1".into(), v.graphs["fw"].clone());
        v.requests.insert(1, Kept { answer, request: String::new(), access, since: 0 });
    });
}

#[tokio::test]
async fn every_route_lets_in_whom_the_table_says_and_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let controller = controller(folder.path());
    let router = router(controller.clone());
    let api = openapi();
    let mut routes = BTreeSet::new();
    for (path, item) in api["paths"].as_object().unwrap() {
        routes.extend(item.as_object().unwrap().keys().map(|m| format!("{m} {path}")));
    }
    let listed: BTreeSet<String> = ROUTES.iter().map(|(route, ..)| (*route).to_owned()).collect();
    assert_eq!(listed, routes, "the table is to have every route, and no other");
    let list = serde_json::json!([DOCUMENT]).to_string();
    for (route, path, body, row) in ROUTES {
        let method = route.split(' ').next().unwrap().to_uppercase();
        let body = if *body == "LIST" { &list } else { *body };
        let (status, detail) = ask(&router, &method, path, body, None).await;
        if *row == "open" {
            assert_ne!(status, 401, "{route}: {detail}");
            continue;
        }
        assert_eq!(status, 401, "{route} without a login: {detail}");
        assert_eq!(row.split(' ').count(), PEOPLE.len());
        for ((name, role, tenant, graph, function), cell) in PEOPLE.iter().zip(row.split(' ')) {
            let owner = tenant.map(|name| Owner { name: name.into(), kind: TenantKind::Client });
            let scope = match (graph, function) {
                (Some(graph), Some(function)) => Scope::Functions {
                    graph: (*graph).into(),
                    functions: BTreeSet::from([(*function).into()]),
                },
                (Some(graph), None) => Scope::Graph { graph: (*graph).into() },
                (None, _) => Scope::Everything,
            };
            request(&controller);
            let who = Principal::new(*name, *role, owner, scope).unwrap();
            let (status, detail) = ask(&router, &method, path, body, Some(who)).await;
            assert!(![401, 405, 500].contains(&status), "{route} {name}: {status} {detail}");
            // Of a graph that is another's, only the identifier is known.
            let unknown = ["there is no graph", "there is no request"].iter().any(|t| detail.contains(t));
            let refused = status == 403 || status == 404 && unknown;
            assert_eq!(!refused, cell == "x", "{route} by {name}: {status} {detail}");
        }
    }
    let view = controller.view();
    assert_eq!(
        (view.members.len(), view.graphs["fw"].revision),
        (1, 1),
        "n2 was forgotten by who may, and nothing else done"
    );
}
