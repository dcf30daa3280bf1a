//! The shape of a topology's document, for its JSON Schema: what may be written where [`super::read`] takes several spellings. A test
//! holds the fields against those that the reader takes.
#![expect(dead_code, reason = "only their schema is used")]

use std::borrow::Cow;
use std::collections::BTreeMap;

use weir_model::requirement::Requirement;
use weir_model::value::{Id, IpPrefix, Name, VlanId};
use weir_net::EtherAddr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// A network of boxes and links.
#[derive(JsonSchema)]
#[schemars(rename = "Topology", deny_unknown_fields)]
pub(crate) struct Document {
    /// The version of this format, 1.
    version: Option<u32>,
    /// The network's name.
    name: Option<Name>,
    /// The boxes by their names.
    boxes: BTreeMap<String, BoxForm>,
    /// The links.
    links: Option<Vec<LinkForm>>,
    /// Who may ask for processing, by name.
    owners: Option<BTreeMap<String, OwnerForm>>,
    /// What their modules may do, if not what the paper says.
    policy: Option<PolicyForm>,
    /// What must hold: a list, or a text with one a line.
    requirements: Option<ListOrText<Requirement>>,
}

macro_rules! boxes {
    ($($(#[doc = $doc:literal])+ $kind:ident { $($(#[$meta:meta])+ $field:ident: $type:ty,)* })*) => {
        /// A box: a `kind`, and what belongs to that kind.
        #[derive(JsonSchema)]
        #[schemars(rename = "Box", tag = "kind", rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
        enum BoxForm {
            $(
                $(#[doc = $doc])+
                $kind {
                    $($(#[$meta])+ $field: $type,)*
                    /// Whether it exists already and is only modelled; routers, switches, firewalls and transfer functions are, unless they say otherwise.
                    legacy: Option<bool>,
                    /// Whose it is.
                    owner: Option<Id>,
                },
            )*
        }
    };
}

boxes! {
    /// Where traffic begins and ends.
    Host {
        /// Its addresses and prefixes.
        owns: OneOrList<IpPrefix>,
        /// Whether somebody enforces that it sends from its own addresses only.
        sources: Option<Sources>,
    }
    /// A customer of the operator.
    Client {
        /// Its addresses and prefixes.
        owns: OneOrList<IpPrefix>,
        /// Whether somebody enforces that it sends from its own addresses only.
        sources: Option<Sources>,
    }
    /// All that is outside; owns every address that nobody else owns.
    Internet {
        /// Prefixes that it owns beside.
        owns: Option<OneOrList<IpPrefix>>,
        /// Whether somebody enforces that it sends from its own addresses only.
        sources: Option<Sources>,
    }
    /// Forwards by destination address.
    Router {
        /// The interfaces by name; may be left out where imported routes name them.
        interfaces: Option<BTreeMap<String, InterfaceForm>>,
        /// Routes as for `ip route`, or an imported table.
        routes: Option<RoutesForm>,
        /// The rules of a Linux machine.
        firewall: Option<File>,
    }
    /// Forwards by Ethernet address.
    Switch {
        /// Its ports, and their VLANs.
        ports: Option<SwitchPorts>,
        /// Entries `MAC [vlan N] PORT`; without them the switch learns.
        macs: Option<Vec<String>>,
        /// What becomes of frames to addresses that `macs` does not list.
        unknown: Option<Unknown>,
    }
    /// A filter between two ports, which forwards frames as they are.
    Firewall {
        /// The names of its two ports.
        #[schemars(length(equal = 2))]
        ports: Vec<String>,
        /// Rules `allow|deny [from PORT] FILTER`, of which the first that matches decides, or those of a Linux machine.
        rules: ListOrFile,
        /// Whether replies to what was allowed pass.
        stateful: Option<bool>,
    }
    /// Anything else, as a Click configuration.
    Click {
        /// Its ports: the first is `in_0` and `out_0` in the configuration.
        ports: Option<Vec<String>>,
        /// The configuration's text.
        config: Option<String>,
        /// The configuration's file, in place of `config`.
        file: Option<String>,
    }
    /// Where requests are placed.
    Platform {
        /// Addresses for the modules.
        owns: OneOrList<IpPrefix>,
    }
    /// A transfer function of header space analysis.
    Transfer {
        /// The `.tf` file.
        file: String,
        /// How often a packet passes the function on its way through the box.
        stages: Option<u32>,
        /// What leaves by the function's port N + this leaves the box by its port N.
        out_offset: Option<u32>,
    }
}

/// Which sources an end point sends from.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
enum Sources {
    Own,
    Any,
}

/// The policy of a switch for frames to unknown addresses.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
enum Unknown {
    Flood,
    Drop,
}

/// An interface's addresses with their networks' lengths, or these with more.
#[derive(JsonSchema)]
#[schemars(rename = "Interface", untagged)]
enum InterfaceForm {
    Addresses(OneOrList<InterfaceAddress>),
    Full(InterfaceMap),
    None(()),
}

/// An interface with more than addresses.
#[derive(JsonSchema)]
#[schemars(rename = "InterfaceFields", deny_unknown_fields)]
pub(crate) struct InterfaceMap {
    /// An address such as 10.0.0.1/24, or a list of them.
    address: Option<OneOrList<InterfaceAddress>>,
    /// The Ethernet address.
    mac: Option<EtherAddr>,
    /// The VLAN on the link.
    vlan: Option<VlanId>,
}

/// Routes, or where they are.
#[derive(JsonSchema)]
#[schemars(rename = "Routes", untagged)]
enum RoutesForm {
    Written(Vec<String>),
    Imported(ImportedRoutes),
}

/// A routing table of another system.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct ImportedRoutes {
    /// The file, in the topology's folder.
    file: String,
    /// Which system's form it has.
    format: String,
}

/// Something that a file holds.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct File {
    /// The file, in the topology's folder.
    file: String,
}

/// A list of texts, or a file.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum ListOrFile {
    List(Vec<String>),
    File(File),
}

/// A switch's ports by name, or a list of names.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum SwitchPorts {
    Names(Vec<String>),
    Vlans(BTreeMap<String, Option<PortVlans>>),
}

/// A port of one VLAN, or a trunk.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct PortVlans {
    /// The only VLAN, without tags.
    vlan: Option<VlanId>,
    /// The VLANs with tags.
    trunk: Option<Vec<VlanId>>,
    /// The VLAN of frames without a tag, with `trunk`.
    native: Option<VlanId>,
}

/// A link `A:port - B:port`, or a file of links.
#[derive(JsonSchema)]
#[schemars(rename = "Link", untagged)]
enum LinkForm {
    Text(String),
    File(File),
}

/// Somebody who may ask for processing.
#[derive(JsonSchema)]
#[schemars(rename = "Owner", deny_unknown_fields)]
pub(crate) struct OwnerForm {
    /// What they are to the operator.
    role: Role,
    /// Destinations that agreed to receive the owner's traffic.
    registered: Option<OneOrList<IpPrefix>>,
}

/// The role of an owner.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
enum Role {
    ThirdParty,
    Client,
    Operator,
}

/// The rules for modules, by who asked for them.
#[derive(JsonSchema)]
#[schemars(rename = "Policy", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct PolicyForm {
    /// For third parties.
    third_party: Option<RulesForm>,
    /// For customers.
    client: Option<RulesForm>,
    /// For the operator.
    operator: Option<RulesForm>,
}

/// The rules for modules of one requester.
#[derive(JsonSchema)]
#[schemars(rename = "PolicyRules", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct RulesForm {
    /// What may arrive at a module: `module`, a prefix, or `anything`.
    receive: Option<OneOrList<String>>,
    /// Sources of what it sends: `module`, `unchanged`, a prefix, or `anything`.
    send_from: Option<OneOrList<String>>,
    /// Destinations: `registered`, `own-modules`, `answered`, a prefix, or `anything`.
    send_to: Option<OneOrList<String>>,
    /// What to do when neither is proved: `refuse` or `sandbox`.
    inconclusive: Option<String>,
}

/// An interface's address with the length of its network.
pub(crate) struct InterfaceAddress;

impl JsonSchema for InterfaceAddress {
    fn schema_name() -> Cow<'static, str> {
        "InterfaceAddress".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "An address with the length of its network, such as 10.0.0.1/24.",
            "type": "string", "pattern": "^[0-9A-Fa-f.:]+(/[0-9]{1,3})?$"
        })
    }
}

/// One value, or a list of them.
pub(crate) struct OneOrList<T>(T);

impl<T: JsonSchema> JsonSchema for OneOrList<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("OneOrListOf{}", T::schema_name()).into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(g: &mut SchemaGenerator) -> Schema {
        let one = g.subschema_for::<T>();
        json_schema!({ "anyOf": [one, { "type": "array", "items": one }] })
    }
}

/// A list, or a text with one a line.
pub(crate) struct ListOrText<T>(T);

impl<T: JsonSchema> JsonSchema for ListOrText<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("ListOrTextOf{}", T::schema_name()).into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(g: &mut SchemaGenerator) -> Schema {
        let one = g.subschema_for::<T>();
        json_schema!({ "anyOf": [{ "type": "array", "items": one }, { "type": "string" }] })
    }
}
