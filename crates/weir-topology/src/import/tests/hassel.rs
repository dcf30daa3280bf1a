//! Transfer functions.

use crate::import::hassel::TransferFunction;

#[test]
fn transfer_functions_are_read() {
    let tf = TransferFunction::parse(include_str!("../../../tests/data/import/box.tf")).unwrap();
    assert_eq!(
        (tf.header_len, tf.prefix.as_str(), tf.rules.len(), tf.send_on_receiving_port),
        (4, "gw", 4, false)
    );
    let [fwd, rw, drop, link] = tf.rules.as_slice() else { panic!() };
    assert_eq!(
        (fwd.in_ports.as_slice(), fwd.out_ports.as_slice(), fwd.id.as_str()),
        (&[1, 2][..], &[3][..], "gw_1")
    );
    assert!(
        fwd.matches.as_ref().unwrap().matches(&[10, 0, 0, 5])
            && !fwd.matches.as_ref().unwrap().matches(&[10, 0, 0, 6])
    );
    assert_eq!(fwd.matches.as_ref().unwrap().to_string(), "00001010,00000000,00000000,00000101");
    let rewrite = rw.rewrite.as_ref().unwrap();
    assert_eq!(
        (rewrite.mask.as_slice(), rewrite.value.as_slice()),
        (&[255, 255, 255, 0][..], &[0, 0, 0, 9][..])
    );
    assert!(drop.out_ports.is_empty() && drop.matches.as_ref().unwrap().matches(&[10, 9, 9, 9]));
    assert_eq!((link.is_link, link.matches.is_none()), (true, true));
    assert_eq!(tf.links().collect::<Vec<_>>(), [(3, 10), (3, 11)]);
    assert_eq!(tf.ports(), [1, 2, 3, 10, 11]);
    assert_eq!(tf.layout().unwrap()[0].field, weir_model::requirement::HeaderField::IpDst);
    // The shape of the old files: an empty second line, the identifier right behind the influences.
    let old =
        TransferFunction::parse("2$r1$4$\n\nfwd$[100001]$10xxxxxx$None$None$None$None$[100003]$#$#$r1_1$\n")
            .unwrap();
    assert_eq!((old.header_len, old.rules[0].id.as_str(), old.rules[0].line), (1, "r1_1", 3));
}

#[test]
fn mistakes_in_transfer_functions_are_told() {
    let with = |rule: &str| format!("2$r$1$0$0$\n#\n{rule}\n");
    for (text, message) in [
        (
            String::new(),
            "transfer function (line 1, column 1): \"\" does not begin a transfer function; the first line is 2*LENGTH$NAME$COUNT$0$0$, with a length of 1 to 256 bytes",
        ),
        (
            "3$r$".into(),
            "transfer function (line 1, column 1): \"3$r$\" does not begin a transfer function; the first line is 2*LENGTH$NAME$COUNT$0$0$, with a length of 1 to 256 bytes",
        ),
        (
            with("fwdd$"),
            "transfer function (line 3, column 1): \"fwdd\" is not an action; a rule begins with fwd$, rw$ or link$",
        ),
        (
            with("fwd$1$"),
            "transfer function (line 3, column 1): \"1\" is not a list of ports; write numbers such as [100001, 100002]",
        ),
        (
            with("fwd$[1]$0000000$None$None$None$None$[2]$#$#$"),
            "transfer function (line 3, column 1): the wildcard \"0000000\" does not have 8 bits; the first line says headers of 1 bytes",
        ),
        (
            with(&["fwd$[1]$10xxxxxx,xxxxxxx1$None$None$None$None$[2]$#$#$"; 3].join("\n")),
            "transfer function (line 1, column 1): the first line says headers of 1 bytes, and all wildcards have 2; for headers of 2 bytes, the first line begins with 4",
        ),
        (
            with("fwd$[1]$0000000z$None$None$None$None$[2]$#$#$"),
            "transfer function (line 3, column 1): \"0000000z\" is not a wildcard; it consists of 0, 1 and x",
        ),
        (
            with("fwd$[1]$None$None$None$None$None$[2]$#$#$"),
            "transfer function (line 3, column 1): \"fwd\" matches nothing; the third field is a wildcard",
        ),
        (
            with("rw$[1]$00000000$None$None$None$None$[2]$#$#$"),
            "transfer function (line 3, column 1): a rewrite without mask or value; the fourth and fifth fields are wildcards",
        ),
        (
            with("rw$[1]$00000000$11111111$00000001$None$None$[2]$#$#$"),
            "transfer function (line 3, column 1): the rewrite has a 1 where the mask keeps the bit; the mask has 0 for each bit that is rewritten",
        ),
        (
            with("rw$[1]$00000000$1111111x$00000001$None$None$[2]$#$#$"),
            "transfer function (line 3, column 1): \"1111111x\" has an x; mask and rewrite consist of 0 and 1",
        ),
        (
            with("fwd$[1]$00000000$None$None$None$None$[2]$#x#$#$"),
            "transfer function (line 3, column 1): the rules that it affects are not listed as they should be; the ninth and tenth fields are #RULE;WILDCARD;[PORTS]#… and #RULE#…",
        ),
    ] {
        assert_eq!(TransferFunction::parse(&text).expect_err(&text).to_string(), message, "{text}");
    }
}
