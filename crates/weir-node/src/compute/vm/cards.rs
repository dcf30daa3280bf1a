//! The network cards of a machine: on the command line that it is started with, and given and taken while it is there.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::qmp::Qmp;
use crate::compute::hosted::Paths;
use crate::compute::netns;
use crate::compute::sockets::Sockets;
use crate::instance::PortNames;

/// How long the data plane may take until it opens a port.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often that is looked at.
const STEP: Duration = Duration::from_millis(50);

/// How long a guest may take to let a card go until it is asked again: one that was busy with what came before has not heard it.
const LETS_GO: Duration = Duration::from_secs(8);
/// How often a guest is asked to let a card go.
const ATTEMPTS: u32 = 8;

/// A network card.
#[derive(Debug)]
pub(super) struct Card {
    name: String,
    mac: String,
    end: End,
    /// Its place on the bus.
    place: usize,
}

/// The other end of a card.
#[derive(Debug)]
enum End {
    /// The socket of the data plane, which makes it (vhost-user).
    Socket(PathBuf),
    /// The other end of an interface of the node (TAP).
    Interface(String),
}

impl Card {
    /// That of a port.
    pub(super) fn new(port: &PortNames, place: usize, sockets: &Sockets, paths: &Paths) -> Card {
        let end = match port.is_interface() {
            true => End::Interface(port.outside.clone()),
            false => End::Socket(sockets.of(paths).join(&port.inside)),
        };
        Card { name: port.inside.clone(), mac: mac(&port.outside), end, place }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// How QEMU is told of it when it is started. One on an interface comes [later](Card::plug), before the machine runs.
    pub(super) fn options(&self) -> Vec<String> {
        let Card { name, mac, end: End::Socket(socket), place } = self else { return Vec::new() };
        let device = format!("virtio-net-pci,id=d-{name},netdev=n-{name},bus=p{place},mac={mac},vectors=0");
        [
            ("-chardev", format!("socket,id=c-{name},path={},reconnect=1", socket.display())),
            ("-netdev", format!("vhost-user,id=n-{name},chardev=c-{name}")),
            ("-device", device),
        ]
        .into_iter()
        .flat_map(|(option, value)| [option.to_owned(), value])
        .collect()
    }

    /// Waits until it can be plugged: with a socket, until the data plane is there, since QEMU stands still until then, and who else has
    /// something to ask it would wait.
    pub(super) async fn ready(&self) -> io::Result<()> {
        let End::Socket(socket) = &self.end else { return Ok(()) };
        let until = Instant::now() + PATIENCE;
        while !socket.exists() {
            if Instant::now() > until {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the data plane does not open its port"));
            }
            sleep(STEP).await;
        }
        Ok(())
    }

    /// Adds it to a machine.
    pub(super) async fn plug(&self, qmp: &mut Qmp) -> io::Result<()> {
        let Card { name, mac, end, place } = self;
        let mut device = json!({"driver": "virtio-net-pci", "id": format!("d-{name}"), "netdev": format!("n-{name}"),
            "bus": format!("p{place}"), "mac": mac});
        let netdev = match end {
            End::Socket(socket) => {
                let backend = json!({"type": "socket", "data": {
                    "addr": {"type": "unix", "data": {"path": socket}}, "server": false, "reconnect": 1}});
                qmp.ask("chardev-add", json!({"id": format!("c-{name}"), "backend": backend})).await?;
                device["vectors"] = json!(0);
                json!({"type": "vhost-user", "id": format!("n-{name}"), "chardev": format!("c-{name}")})
            }
            End::Interface(interface) => {
                // QEMU is in the function's namespace, and the interface is not.
                let tap = weir_io::tap::end(interface)?;
                qmp.give(&format!("t-{name}"), &tap).await?;
                json!({"type": "tap", "id": format!("n-{name}"), "fd": format!("t-{name}")})
            }
        };
        qmp.ask("netdev_add", netdev).await?;
        qmp.ask("device_add", device).await.map(drop)
    }
}

/// Adds a card to a machine that runs, as soon as that can be done.
pub(super) async fn plug_when_ready(card: &Card, control: &Path) -> io::Result<()> {
    card.ready().await?;
    card.plug(&mut Qmp::open(control).await?).await
}

/// Takes a card from a machine that runs: the guest has to let it go.
pub(super) async fn unplug(qmp: &mut Qmp, port: &PortNames) -> io::Result<()> {
    let device = format!("d-{}", port.inside);
    let mut result = Ok(());
    for attempt in 0..ATTEMPTS {
        match qmp.ask("device_del", json!({"id": device})).await {
            // It went after the time was over.
            Err(e) if attempt > 0 && e.kind() == io::ErrorKind::NotFound => result = Ok(()),
            Err(e) if attempt == 0 => return Err(e),
            // QEMU may refuse to ask again that soon; the guest may let go all the same.
            Ok(_) | Err(_) => result = qmp.event("DEVICE_DELETED", &device, LETS_GO).await,
        }
        match &result {
            Err(e) if e.kind() == io::ErrorKind::TimedOut => {}
            _ => break,
        }
    }
    result.map_err(|e| {
        io::Error::new(e.kind(), format!("the guest does not let go of its card {}: {e}", port.inside))
    })?;
    // Its chardev, if it has one, goes with it.
    qmp.ask("netdev_del", json!({"id": format!("n-{}", port.inside)})).await.map(drop)
}

/// The places that have no card, as QEMU tells its buses (`query-pci`).
pub(super) fn free_places(buses: &Value) -> Vec<usize> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let devices = list(buses).into_iter().flat_map(|bus| list(&bus["devices"]));
    let place = |device: Value| {
        let place = device["qdev_id"].as_str()?.strip_prefix('p')?.parse().ok()?;
        list(&device["pci_bridge"]["devices"]).is_empty().then_some(place)
    };
    let mut places: Vec<usize> = devices.filter_map(place).collect();
    places.sort_unstable();
    places
}

/// A local Ethernet address made of a name, as text.
fn mac(name: &str) -> String {
    let bytes: Vec<String> = netns::address(name).iter().map(|b| format!("{b:02x}")).collect();
    bytes.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_without_a_card_are_free() {
        let bridge = |id: &str, devices: Value| json!({"qdev_id": id, "pci_bridge": {"bus": {"number": 1}, "devices": devices}});
        let buses = json!([{"bus": 0, "devices": [
            {"qdev_id": "", "class_info": {}},
            bridge("p2", json!([])),
            bridge("p0", json!([{"qdev_id": "d-left"}])),
            {"qdev_id": "p1", "pci_bridge": {"bus": {"number": 2}}},
            {"qdev_id": "pcie.7"},
        ]}]);
        assert_eq!(free_places(&buses), [1, 2]);
        assert_eq!(free_places(&json!({"what": "else"})), [0usize; 0]);
    }

    #[test]
    fn a_card_on_a_socket_is_there_from_the_start_and_one_on_an_interface_is_not() {
        let sockets = Sockets("/s".into());
        let paths = Paths::new("/f".as_ref(), &crate::instance::InstanceId::new("g", "f"));
        let card = |outside: &str| {
            let port = PortNames { inside: "left".into(), outside: outside.into() };
            Card::new(&port, 3, &sockets, &paths)
        };
        let options = card("vhost-user:x/left").options().join(" ");
        assert!(options.contains("/left,reconnect=1") && options.contains("bus=p3"), "{options}");
        assert_eq!(card("wf0123").options(), Vec::<String>::new());
    }
}
