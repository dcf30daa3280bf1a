use crate::prelude::*;

element! {
    /// Sends packets to its outputs in proportion to tickets (stride scheduling, Waldspurger and Weihl 1995).
    ///
    /// There is an argument for each output: its number of tickets, 0 to 32768 (more count as 32768). An output with twice as many gets
    /// twice as many packets; one without gets none. If no output has tickets, packets are dropped (`Discarded`).
    /// Where two outputs come next, the first of them does.
    StrideSwitch: "1/1-", "h/h";
    example "Idle -> s :: StrideSwitch(3, 1); s [0] -> Discard; s [1] -> Discard;";
    params {
        /// Tickets of each output.
        rest tickets: Vec<u32>,
    }
    check |e| if e.tickets.is_empty() { Err("write the tickets of each output".into()) } else { Ok(()) };
    handlers {
        /// Tickets of all outputs, separated by commas.
        read tickets = |_, s| Ok(list(s)),
        /// Changes the tickets of one output: `OUTPUT TICKETS`.
        write tickets = |_, s, v| set(s, v),
    }
    ports |e| format!("1/{}", e.tickets.len());
}

const MAX_TICKETS: u32 = 1 << 15;
/// How far one packet moves an output that has one ticket.
const STRIDE: u32 = 1 << 16;
/// A difference of passes that is negative.
const BEHIND: u32 = 1 << 31;

fn stride(tickets: u32) -> u32 {
    STRIDE.checked_div(tickets).unwrap_or(0)
}

fn program(e: &StrideSwitch, b: &mut Builder) {
    let n = e.tickets.len() as u32;
    let fields = [("pass", W32), ("stride", W32), ("tickets", W32)];
    let decl = TableDecl::new("clients", Kind::Array, &[("output", W32)], &fields, n);
    let rows = e.tickets.iter().zip(0..).map(|(&t, i)| {
        let t = t.min(MAX_TICKETS);
        let stride = stride(t).into();
        Row::exact(&[i], &[stride, stride, t.into()])
    });
    let clients = b.table(decl.configured(), rows.collect());
    b.input(0, |b| {
        // The output whose pass is least, as differences have it: passes wrap.
        let mut port = b.constant(W32, n);
        let mut least = b.constant(W32, 0_u32);
        for i in 0..n {
            let client = b.index(clients, i);
            let (pass, stride) = (b.get(client, "pass"), b.get(client, "stride"));
            let takes_part = b.ne(stride, 0);
            let first = b.eq(port, n);
            let difference = b.sub(pass, least);
            let behind = b.ge(difference, BEHIND);
            let better = b.or(first, behind);
            let better = b.and(better, takes_part);
            least = b.select(better, pass, least);
            let this = b.constant(W32, i);
            port = b.select(better, this, port);
        }
        let cases: Vec<u128> = (0..n.into()).collect();
        b.switch(port, &cases, |b, case| match case {
            Some(i) => {
                let client = b.index(clients, i as u32);
                let stride = b.get(client, "stride");
                let pass = b.add(least, stride);
                b.set(client, "pass", pass);
                b.emit(i as u32);
            }
            None => b.drop(Reason::DISCARDED),
        });
    });
}

fn list(s: &State<'_>) -> String {
    let clients = s.table("clients");
    let tickets: Vec<String> = (0..clients.decl().capacity).map(|i| clients.get(i, 2).to_string()).collect();
    tickets.join(", ")
}

fn set(s: &mut State<'_>, text: &str) -> Result<(), String> {
    let (output, tickets) = text.trim().split_once(char::is_whitespace).ok_or("write 'OUTPUT TICKETS'")?;
    let (output, tickets) = (u32::from_arg(output)?, u32::from_arg(tickets)?);
    let clients = s.table_mut("clients");
    let n = clients.decl().capacity;
    if output >= n {
        return Err(format!("there is no output {output}; the last is {}", n - 1));
    }
    if tickets > MAX_TICKETS {
        return Err(format!("{tickets} tickets are too many; at most {MAX_TICKETS}"));
    }
    if clients.get(output, 1) == 0 {
        // It comes in behind the output that is next, as if it had just had a packet.
        let others = (0..n).filter(|&i| clients.get(i, 1) != 0).map(|i| clients.get(i, 0) as u32);
        let next = others.reduce(|a, b| if a.wrapping_sub(b) >= BEHIND { a } else { b }).unwrap_or(0);
        clients.set(output, 0, next.wrapping_add(stride(tickets)).into());
    }
    clients.set(output, 1, stride(tickets).into());
    clients.set(output, 2, tickets.into());
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    fn counts(e: &mut Harness, packets: usize) -> Vec<u32> {
        let mut used = vec![0; 3];
        (0..packets).for_each(|_| used[e.send(0, b"x")[0].out().0 as usize] += 1);
        used
    }

    #[test]
    fn outputs_get_packets_in_proportion_to_tickets() {
        let mut e = Harness::new("StrideSwitch", &["4", "2", "1"], 1, 3);
        assert_eq!(counts(&mut e, 700), [400, 200, 100]);
        let mut e = Harness::new("StrideSwitch", &["1", "1", "1"], 1, 3);
        let ports: Vec<_> = (0..6).map(|_| e.send(0, b"x")[0].out().0).collect();
        assert_eq!(ports, [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn passes_may_wrap() {
        let mut e = Harness::new("StrideSwitch", &["1", "1", "0"], 1, 3);
        // Each packet moves an output by 2^16, so that passes wrap after 2^16 packets each.
        assert_eq!(counts(&mut e, 150_000), [75_000, 75_000, 0]);
    }

    #[test]
    fn tickets_can_change_while_it_runs() {
        let mut e = Harness::new("StrideSwitch", &["1", "1", "0"], 1, 3);
        counts(&mut e, 1001);
        e.write("tickets", "2 2").unwrap();
        assert_eq!(e.read("tickets"), "1, 1, 2");
        let used = counts(&mut e, 400);
        assert!(
            used[0].abs_diff(100) <= 1 && used[1].abs_diff(100) <= 1 && used[2].abs_diff(200) <= 1,
            "{used:?}"
        );
        (0..3).for_each(|i| e.write("tickets", &format!("{i} 0")).unwrap());
        assert_eq!(e.send(0, b"x")[0].reason(), "Discarded");
        for (wrong, why) in [
            ("3 1", "there is no output 3; the last is 2"),
            ("0 32769", "at most 32768"),
            ("0", "write 'OUTPUT TICKETS'"),
        ] {
            assert!(e.write("tickets", wrong).unwrap_err().contains(why));
        }
    }

    #[test]
    fn there_is_an_argument_for_each_output() {
        let class = crate::class_named("StrideSwitch").unwrap();
        assert_eq!(class.configure(&["1".into(), "2".into()]).unwrap().ports(), "1/2");
        assert!(class.configure(&[]).err().unwrap()[0].contains("tickets of each output"));
        let mut e = Harness::new("StrideSwitch", &["1", "40000"], 1, 2);
        assert_eq!(e.read("tickets"), "1, 32768");
    }
}
