use crate::fields::wifi;
use std::collections::BTreeMap;

use super::HEADER;
use crate::prelude::*;

element! {
    /// Drops IEEE 802.11 frames that were sent again although they had arrived (IEEE 802.11-2020 section 10.3.2.14).
    ///
    /// A frame with the retry flag whose sequence number is that of the frame before from the same transmitter, and
    /// whose fragment number is not higher, is a duplicate (`Duplicate`). For QoS data, each traffic identifier counts by
    /// itself. Control frames, frames to groups and what is shorter than a header pass. Stations that have sent
    /// nothing for `TIMEOUT` are forgotten; while `CAPACITY` are known, no other is filtered.
    WifiDupeFilter: "1/1", "a/a";
    example "Idle -> WifiDupeFilter -> Discard;";
    params {
        /// Whether duplicates are printed.
        key debug: bool = false,
        /// Most stations, each with its traffic identifiers, that are remembered.
        key capacity: u32 = 65_536,
        /// How long a silent station is remembered; 0 is for ever.
        key timeout: Duration = Duration::from_secs(600),
    }
    check |e| match e.capacity {
        1..=weir_table::MAX_CAPACITY => Ok(()),
        n => Err(format!("CAPACITY: {n} stations; write a number from 1 to {}", weir_table::MAX_CAPACITY)),
    };
    handlers {
        /// Number of duplicates.
        count dupes,
        /// The same as `dupes`.
        read drops = |_, s| Ok(s.cell("dupes").to_string()),
        /// The stations, one a line: address, duplicates, last sequence number and fragment number. A traffic
        /// identifier stands behind the address.
        read stats = |_, s| Ok(stats(s)),
        /// The same in numbers, one a line: address, duplicates, how many sequence numbers follow, and these, the newest last (Scylla paper,
        /// listing 4). The identifiers of a station count together.
        read dupes_table = |_, s| Ok(dupes_table(s)),
        /// Sets an entry: what `dupes_table` says, as one line.
        write dupes_table = |e, s, v| set_entry(s, v, e.timeout),
        /// Whether duplicates are printed.
        cell debug: bool,
        /// Forgets all stations, and sets `dupes` to 0.
        write reset = |_, s, _| {
            s.table_mut("stations").clear();
            s.set_cell("dupes", 0);
            Ok(())
        },
    }
    describe |_, _, args, _| {
        let [station, last] = [args.first()?, args.get(1)?];
        let (sequence, fragment) = numbers(*last as u16);
        Some(format!("duplicate: seq {sequence} frag {fragment} src {}", address(*station as u64)))
    };
}

/// Bits of the first eight bytes: frame control, duration and the first half of the receiver's address.
const CONTROL: u64 = 0x04 << 56;
const GROUP: u64 = 1 << 24;
const RETRY: u64 = 0x08 << 48;
const QOS_DATA_MASK: u64 = 0x8c << 56;
const QOS_DATA: u64 = 0x88 << 56;
const FOUR_ADDRESSES: u64 = 3 << 48;

/// The sequence control field is little-endian; as it is read here, this is the sequence number, and this the number
/// of the fragment.
const SEQUENCE: u32 = 0xf0ff;
const FRAGMENT: u32 = 0x0f00;

/// What follows the address in a key: 0, or the traffic identifier of QoS data and this.
const HAS_IDENTIFIER: u32 = 0x0100;

fn program(e: &WifiDupeFilter, b: &mut Builder) {
    let fields = [("last", W16), ("dupes", W32)];
    let decl = TableDecl::new("stations", Kind::Exact, &[("station", W64)], &fields, e.capacity);
    let stations = b.table(decl, vec![]);
    let dupes = b.cell("dupes", W64, 0);
    let debug = b.live("debug", W1, e.debug.into());
    let event = b.event("duplicate");
    let timeout = u64::try_from(e.timeout.as_nanos()).unwrap_or(u64::MAX);
    b.input(0, |b| {
        b.require_or(Layer::Data, HEADER, |b| b.emit(0));
        let front = b.load(W64, Layer::Data, 0);
        let other = b.and(front, CONTROL | GROUP);
        let other = b.ne(other, 0);
        b.when(other, |b| b.emit(0));
        let transmitter = b.load(W64, Layer::Data, 10);
        let transmitter = b.and(transmitter, !0xffff_u64);
        let kind = b.and(front, QOS_DATA_MASK);
        let qos = b.eq(kind, QOS_DATA);
        let station = b.choose(qos, |b| with_identifier(b, front, transmitter), |_| transmitter);
        let last = wifi::SEQUENCE_CONTROL.load(b);
        b.lookup(
            stations,
            &[station],
            |b, entry| {
                let retry = b.and(front, RETRY);
                let retry = b.ne(retry, 0);
                b.when(retry, |b| {
                    let before = b.get(entry, "last");
                    let difference = b.xor(before, last);
                    let difference = b.and(difference, SEQUENCE);
                    let same = b.eq(difference, 0);
                    let (fragment, seen) = (b.and(last, FRAGMENT), b.and(before, FRAGMENT));
                    let had = b.le(fragment, seen);
                    let duplicate = b.and(same, had);
                    b.when(duplicate, |b| {
                        count(b, dupes);
                        let n = b.get(entry, "dupes");
                        let n = b.add(n, 1);
                        b.set(entry, "dupes", n);
                        let on = b.read_cell(debug);
                        b.when(on, |b| b.notify(event, &[station, last]));
                        b.drop(Reason::new("Duplicate"));
                    });
                });
                b.set(entry, "last", last);
                if timeout > 0 {
                    b.touch(entry, timeout);
                }
            },
            |b| {
                let entry = b.insert(stations, &[station], |b| b.emit(0));
                b.set(entry, "last", last);
                if timeout > 0 {
                    b.touch(entry, timeout);
                }
            },
        );
        b.emit(0);
    });
}

/// The key of QoS data: the transmitter and the traffic identifier, which stands behind the addresses. Frames that
/// end before it pass.
fn with_identifier(b: &mut Builder, front: V, transmitter: V) -> V {
    let four = b.and(front, FOUR_ADDRESSES);
    let four = b.eq(four, FOUR_ADDRESSES);
    let field = |at| {
        move |b: &mut Builder| {
            b.require_or(Layer::Data, at + 1, |b| b.emit(0));
            b.load(W8, Layer::Data, at)
        }
    };
    let field = b.choose(four, field(HEADER + 6), field(HEADER));
    let identifier = b.and(field, 15);
    let identifier = b.resize(W64, identifier);
    let suffix = b.or(identifier, HAS_IDENTIFIER);
    b.or(transmitter, suffix)
}

/// The address in a key.
fn address(station: u64) -> EtherAddr {
    let [a, b, c, d, e, f, ..] = station.to_be_bytes();
    EtherAddr([a, b, c, d, e, f])
}

/// Sequence number and fragment number of a sequence control field as it is read.
fn numbers(last: u16) -> (u16, u16) {
    let field = last.swap_bytes();
    (field >> 4, field & 15)
}

fn stats(s: &State<'_>) -> String {
    let table = s.table("stations");
    let mut lines: Vec<String> = table
        .rows()
        .iter()
        .map(|&(slot, _)| {
            let station = table.key(slot, 0) as u64;
            let identifier = match station as u16 {
                0 => String::new(),
                suffix => format!(" tid {}", suffix & 15),
            };
            let (sequence, fragment) = numbers(table.get(slot, 0) as u16);
            let dupes = table.get(slot, 1);
            format!("{}{identifier} dupes {dupes} seq {sequence} frag {fragment}\n", address(station))
        })
        .collect();
    lines.sort();
    lines.concat()
}

/// Duplicates and last sequence numbers by station.
fn dupes_table(s: &State<'_>) -> String {
    let table = s.table("stations");
    let mut stations: BTreeMap<[u8; 6], (u64, Vec<u16>)> = BTreeMap::new();
    for &(slot, _) in &table.rows() {
        let (dupes, numbers_of) = stations.entry(address(table.key(slot, 0) as u64).0).or_default();
        *dupes += table.get(slot, 1) as u64;
        numbers_of.push(numbers(table.get(slot, 0) as u16).0);
    }
    let line = |(station, (dupes, last)): (&[u8; 6], &(u64, Vec<u16>))| {
        let last: String = last.iter().map(|n| format!(" {n}")).collect();
        format!("{} {dupes} {}{last}\n", EtherAddr(*station), last.split_whitespace().count())
    };
    stations.iter().map(line).collect()
}

/// Sets the entry of a station, without a traffic identifier.
fn set_entry(s: &mut State<'_>, text: &str, timeout: Duration) -> Result<(), String> {
    let form = "write 'ADDRESS DUPLICATES COUNT NUMBER…', with as many sequence numbers from 0 to 4095 as COUNT says, at least one";
    let mut words = text.split_whitespace();
    let station = EtherAddr::from_arg(words.next().ok_or(form)?)?;
    let dupes: u32 = words.next().and_then(|w| w.parse().ok()).ok_or(form)?;
    let count: usize = words.next().and_then(|w| w.parse().ok()).ok_or(form)?;
    let all: Vec<u16> =
        words.map(|w| w.parse().ok().filter(|n| *n < 4096).ok_or(form)).collect::<Result<_, _>>()?;
    let last = all.last().copied().filter(|_| all.len() == count).ok_or(form)?;
    let [a, b, c, d, e, f] = station.0;
    let key = u128::from(u64::from_be_bytes([a, b, c, d, e, f, 0, 0]));
    if let Some(slot) = s.table("stations").lookup(&[key]) {
        s.remove("stations", slot);
    }
    let ttl = u64::try_from(timeout.as_nanos()).ok().filter(|t| *t > 0);
    let row = Row { ttl, ..Row::exact(&[key], &[(last << 4).swap_bytes().into(), dupes.into()]) };
    let now = s.now;
    s.table_mut("stations").insert_row(&row, now).map(|_| ()).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{A2, frame};
    use crate::testing::{Harness, Outcome};

    const DATA: u8 = 0x08;
    const QOS: u8 = 0x88;
    const RETRY: u8 = 0x08;
    const MORE: u8 = 0x04;

    /// Whether the frame passes; if not, it is a duplicate.
    fn passes(e: &mut Harness, frame: &[u8]) -> bool {
        match &e.send(0, frame)[0] {
            Outcome::Out(0, p) => {
                assert_eq!(p.bytes(), frame);
                true
            }
            other => {
                assert_eq!(other.reason(), "Duplicate");
                false
            }
        }
    }

    fn filter(args: &[&str]) -> Harness {
        Harness::new("WifiDupeFilter", args, 1, 1)
    }

    #[test]
    fn what_comes_again_is_dropped() {
        let mut e = filter(&[]);
        assert!(passes(&mut e, &frame([DATA, RETRY], 0, 0, b"the first frame of a station is none")));
        assert!(passes(&mut e, &frame([DATA, 0], 1, 0, b"")));
        assert!(!passes(&mut e, &frame([DATA, RETRY], 1, 0, b"")));
        assert!(!passes(&mut e, &frame([DATA, RETRY], 1, 0, b"")));
        assert!(passes(&mut e, &frame([DATA, 0], 1, 0, b"no retry")));
        assert!(passes(&mut e, &frame([DATA, RETRY], 2, 0, b"a retry whose first attempt was lost")));
        assert!(passes(&mut e, &frame([DATA, RETRY], 0xf02, 0, b"")), "all 12 bits count");
        assert_eq!((e.read("dupes"), e.read("drops")), ("2".into(), "2".into()));
        assert_eq!(e.read("stats"), "02:00:00:00:0b:02 dupes 2 seq 3842 frag 0\n");
        e.write("reset", "").unwrap();
        assert_eq!((e.read("dupes"), e.read("stats")), ("0".into(), String::new()));
        assert!(passes(&mut e, &frame([DATA, RETRY], 0xf02, 0, b"")));
    }

    #[test]
    fn fragments_of_a_frame_are_told_apart() {
        let mut e = filter(&[]);
        for (n, fragment) in [MORE, MORE, 0].into_iter().zip(0..) {
            assert!(passes(&mut e, &frame([DATA, n], 9, fragment, b"")));
            assert!(!passes(&mut e, &frame([DATA, n | RETRY], 9, fragment, b"")));
        }
        assert!(!passes(&mut e, &frame([DATA, MORE | RETRY], 9, 0, b"an earlier fragment")));
        assert!(passes(&mut e, &frame([DATA, RETRY], 9, 3, b"a later fragment")));
    }

    #[test]
    fn stations_and_traffic_identifiers_count_by_themselves() {
        let mut e = filter(&[]);
        let with = |control, flags, at: usize, byte| {
            let mut f = frame([control, flags], 5, 0, b"");
            f[at] = byte;
            f
        };
        for (control, direction, at, byte) in [
            (DATA, 0, 15, 1),
            (DATA, 0, 10, 4),
            (QOS, 0, 24, 0),
            (QOS, 0, 24, 7),
            (QOS, 3, 30, 3),
            (DATA, 0, 16, 9),
        ] {
            // Only the last differs from the first in nothing that counts.
            let own = at != 16;
            if !own {
                assert!(passes(&mut e, &with(control, 0, 16, 8)));
            }
            assert_eq!(passes(&mut e, &with(control, direction | RETRY, at, byte)), own);
            assert!(!passes(&mut e, &with(control, direction | RETRY, at, byte)));
        }
        assert!(!passes(&mut e, &with(QOS, RETRY, 24, 0x97)), "other bits of the field do not count");
        assert!(
            e.read("stats").contains("02:00:00:00:0b:02 tid 7 dupes 2 seq 5 frag 0\n"),
            "{}",
            e.read("stats")
        );
    }

    #[test]
    fn what_is_not_for_one_station_passes() {
        let mut e = filter(&[]);
        for control in [0xb4, 0x0c] {
            let f = frame([control, RETRY], 5, 0, b"");
            assert!(passes(&mut e, &f) && passes(&mut e, &f));
        }
        let mut group = frame([DATA, RETRY], 5, 0, b"");
        group[4] = 1;
        assert!(passes(&mut e, &group) && passes(&mut e, &group));
        let f = frame([QOS, RETRY | 3], 5, 0, b"");
        for n in 0..=30 {
            assert!(passes(&mut e, &f[..n]) && passes(&mut e, &f[..n]), "{n}");
        }
        assert_eq!(e.read("stats"), "");
        assert!(passes(&mut e, &f[..31]) && !passes(&mut e, &f[..31]));
    }

    #[test]
    fn a_full_table_filters_nobody_else_until_a_station_is_forgotten() {
        let mut e = filter(&["CAPACITY 1", "TIMEOUT 10"]);
        let f = frame([DATA, RETRY], 5, 0, b"");
        let mut other = f.clone();
        other[15] ^= 1;
        assert!(passes(&mut e, &f));
        assert!(passes(&mut e, &other) && passes(&mut e, &other));
        e.now += 9_000_000_000;
        e.expire();
        assert!(!passes(&mut e, &f));
        e.now += 11_000_000_000;
        e.expire();
        assert!(passes(&mut e, &other) && !passes(&mut e, &other) && passes(&mut e, &f));
        let mut forever = filter(&["TIMEOUT 0"]);
        assert!(passes(&mut forever, &f));
        forever.now += 1 << 60;
        forever.expire();
        assert!(!passes(&mut forever, &f));
    }

    #[test]
    fn duplicates_are_printed_on_request() {
        let mut e = filter(&[]);
        let f = frame([DATA, RETRY], 5, 2, b"");
        passes(&mut e, &f);
        passes(&mut e, &f);
        assert!(e.lines.is_empty());
        e.write("debug", "true").unwrap();
        passes(&mut e, &f);
        assert_eq!(e.lines, [format!("duplicate: seq 5 frag 2 src {}", weir_net::EtherAddr(A2))]);
    }

    #[test]
    fn the_capacity_is_bounded() {
        let class = crate::class_named("WifiDupeFilter").unwrap();
        let errors = class.configure(&["CAPACITY 0".into()]).err().unwrap();
        assert!(errors[0].contains("CAPACITY: 0 stations; write a number from 1 to"), "{errors:?}");
    }

    #[test]
    fn the_table_is_read_and_set_in_numbers() {
        let mut e = filter(&[]);
        assert!(passes(&mut e, &frame([DATA, 0], 258, 0, b"x")));
        let before = e.read("dupes_table");
        let (station, rest) = before.trim().split_once(' ').unwrap();
        assert!(rest.starts_with("0 1 "), "{before}");
        e.write("dupes_table", &format!("{station} 215 3 1323 2324 1325")).unwrap();
        e.write("dupes_table", "a0:d3:c1:a8:e4:c3 7 1 4095").unwrap();
        let after = e.read("dupes_table");
        assert!(
            after.contains(&format!("{station} 215 1 1325\n")) && after.contains(" 7 1 4095\n"),
            "{after}"
        );
        for wrong in
            ["", "x 1 1 1", "a0:d3:c1:a8:e4:c3 1 2 1", "a0:d3:c1:a8:e4:c3 1 1 4096", "a0:d3:c1:a8:e4:c3 1 0"]
        {
            assert!(e.write("dupes_table", wrong).is_err(), "{wrong}");
        }
    }
}
