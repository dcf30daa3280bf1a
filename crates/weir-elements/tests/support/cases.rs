//! Configurations beside the examples of the manual.

/// Elements with arguments, alone: `X -> Discard`.
pub const ALONE: &[&str] = &[
    "Strip(0)",
    "Strip(1)",
    "Strip(60)",
    "Unstrip(0)",
    "Unstrip(14)",
    "Unstrip(200)",
    "Paint(0)",
    "Paint(255, 17)",
    "GetIPAddress(0)",
    "GetIPAddress(30)",
    "SetIPAddress(224.0.0.1)",
    "MarkIPHeader",
    "MarkIPHeader(14)",
    "CheckIPHeader(14, CHECKSUM false)",
    "CheckIPHeader(0, INTERFACES 10.0.0.1/24 192.0.2.1/30)",
    "CheckIPHeader2(14, BADSRC 10.0.0.1)",
    "DropBroadcasts",
    "EtherMirror",
    "EtherEncap(0xffff, ff:ff:ff:ff:ff:ff, 00:00:00:00:00:00)",
    "VLANDecap(false)",
    "VLANDecap(ETHERTYPE 0x88a8)",
    "VLANEncap(0xffff)",
    "VLANEncap(VLAN_ID 1, NATIVE_VLAN 1)",
    "VLANEncap(ANNO, NATIVE_VLAN -1, ETHERTYPE 0x88a8)",
    "ARPResponder(0/0 02:00:00:00:00:09)",
    "ARPResponder(10.0.0.2 02:00:00:00:00:01, 10.0.0.0/8 02:00:00:00:00:02)",
    "Print(x, -1, PRINTANNO true, HEADROOM true)",
    "Print(MAXLENGTH 0, ACTIVE false)",
    "Counter",
    "Null",
    "Switch(-1)",
    "StaticSwitch(-1)",
    "RoundRobinSwitch",
    "HashSwitch(0, 1)",
    "PaintSwitch",
    "Tee",
    "CheckPaint(1)",
    "CheckPaint(0, 3)",
    "RandomSwitch",
    "StrideSwitch(0)",
    "FixIPSrc(10.0.0.7)",
    "StripToNetworkHeader",
    "StoreIPAddress(3)",
    "StoreIPAddress(10.0.0.7, 30)",
    "StoreIPAddress(10.0.0.7, src)",
    "SetIPDst(10.0.0.7)",
    "FlowHashSwitch",
    "IPFragmenter(68)",
    "IPGWOptions(10.0.0.1)",
    "WifiDupeFilter(CAPACITY 3, TIMEOUT 0, DEBUG true)",
    "WifiDecap(STRICT true)",
    "WifiDecap(ETHER false)",
];

/// Elements that want a checked IPv4 header: `CheckIPHeader -> X -> Discard`.
pub const BEHIND_CHECK: &[&str] = &[
    "CheckTCPHeader",
    "CheckUDPHeader",
    "CheckICMPHeader",
    "IPMirror",
    "IPMirror(false)",
    "ICMPPingResponder",
    "DecIPTTL",
    "DecIPTTL(MULTICAST false)",
    "DecIPTTL(ACTIVE false)",
    "GetIPAddress(IP dst)",
    "GetIPAddress(IP src)",
    "IPPrint(CONTENTS hex, ID true, TOS true, LENGTH true)",
    "IPPrint(PAYLOAD ascii, MAXLENGTH 10)",
    "ICMPError(10.0.0.1, redirect, host)",
    "ICMPError(10.0.0.1, parameterproblem, MTU 60)",
    "ICMPError(10.0.0.1, unreachable, needfrag, 10.0.0.2, PMTU 1400, SET_FIX_ANNO false)",
    "ICMPError(10.0.0.1, sourcequench, MTU 0)",
    "FixIPSrc(10.0.0.7)",
    "SetIPDst(10.0.0.7)",
    "SetIPDst(10.0.1.1, DST_ANNO false)",
    "StoreIPAddress(dst)",
    "StoreIPAddress(10.0.0.7, src)",
    "StripToNetworkHeader",
    "FlowHashSwitch(true)",
    "IPGWOptions(10.0.0.1, 10.0.0.2 192.0.2.1)",
    "IPFragmenter(576)",
    "IPFragmenter(68, false)",
    "DirectIPLookup(10.0.0.0/8 10.0.0.9 0, 0/0 0)",
    "HashSwitch(12, 8)",
    "HashSwitch(16, 256)",
    "StaticIPLookup(0/0 0)",
    "RadixIPLookup(10.0.0.0/8 0)",
    "LinearIPLookup(10.0.0.1 10.0.0.2 0, 10.0.0.0/31 0)",
    "ConnectionLimit(0)",
    "ConnectionLimit(1)",
    "ConnectionLimit(2, 5 s, DONE_TIMEOUT 0, CAPACITY 3)",
    "ARPQuerier(10.0.0.1, 02:00:00:00:00:01, ENTRY_CAPACITY 2, ENTRY_PACKET_CAPACITY 0)",
    "ARPQuerier(10.0.0.1, 02:00:00:00:00:01, BROADCAST 10.255.255.255, POLL_TIMEOUT 0, TRIES 1)",
    "IPFilter(deny all)",
    "IPFilter(allow all)",
    "IPFilter(deny src net 10.0.0.0/8 and not dst host 10.0.0.1, allow tcp)",
    "IPFilter(allow tcp[13] & 7 != 0, deny udp and src port 53, 0 icmp[0] = 8, drop ip[8] < 2)",
    "IPFilter(allow tcp portrange 0-1024 or udp portrange 1025-65535)",
    "IPRewriter(pass 0)",
    "IPRewriter(keep 0 0, CAPACITY 2)",
    "IPRewriter(pattern 192.0.2.1 1-2# - - 0 0, UDP_TIMEOUT 2)",
    "IPRewriter(pattern 192.0.2.1 1-65535? 10.0.0.2 80 0 0, DST_ANNO false, TCP_DONE_TIMEOUT 1)",
    "IPRewriter(pattern - - 10.0.1.1 - 0 0)",
    "IPRewriter(pattern 192.0.2.0/30 - 0 0)",
    "IPRewriter(drop)",
    "IPAddrRewriter(pattern 192.0.2.1-192.0.2.2# - 0 0, TIMEOUT 3)",
    "IPAddrRewriter(keep 0 0, CAPACITY 1)",
    "IPAddrRewriter(pattern 192.0.2.1 - 0 0)",
    "IPAddrRewriter(pass 0)",
];

/// Whole graphs: every kind of branch, join and cycle. Packets come to each `Discard` of them.
pub const GRAPHS: &[&str] = &[
    // Classes with more outputs than the tables above use.
    "Idle -> c :: Classifier(12/0806, 12/0800 14/4?, !12/0800 0/ff%01, 3/00, -);
     c [0] -> Discard; c [1] -> Discard; c [2] -> Discard; c [3] -> Discard; c [4] -> Discard;",
    "Idle -> c :: Classifier(12/08??%ff0f, 0/??); c [0] -> Discard; c [1] -> Discard;",
    "Idle -> CheckIPHeader -> c :: IPClassifier(src 10.0.0.1 and dst 10.0.0.2, tcp[13] & 2 != 0 or icmp, udp and not dst port 53, src net 192.0.2.0/24, -);
     c [0] -> Discard; c [1] -> Discard; c [2] -> Discard; c [3] -> Discard; c [4] -> Discard;",
    "Idle -> CheckIPHeader -> f :: IPFilter(1 tcp dst port 80, 2 udp, deny icmp, allow all); f [0] -> Discard; f [1] -> Discard; f [2] -> Discard;",
    "Idle -> h :: CheckIPHeader(14, BADSRC 10.0.0.2, GOODDST 10.0.1.1) -> ttl :: DecIPTTL -> d :: Discard; h [1] -> d; ttl [1] -> d;",
    "Idle -> r :: RoundRobinSwitch; r [0] -> Paint(1) -> s :: PaintSwitch; r [1] -> Paint(2) -> s; r [2] -> s;
     s [0] -> Discard; s [1] -> Discard; s [2] -> Discard;",
    "Idle -> r :: RoundRobinSwitch; r [0] -> Paint(1, 5) -> c :: CheckPaint(1, 5) -> Discard; r [1] -> Paint(2, 5) -> c; c [1] -> Discard;",
    "Idle -> s :: Switch(1); s [0] -> Idle; s [1] -> s2 :: StaticSwitch(0); s2 [0] -> Discard; s2 [1] -> Idle;",
    "Idle -> CheckIPHeader -> h :: HashSwitch(12, 8); h [0] -> Counter -> j :: Null; h [1] -> Paint(1) -> j; h [2] -> j; j -> Discard;",
    "Idle -> b :: DropBroadcasts -> e :: VLANDecap -> VLANEncap(ANNO) -> Discard; b [1] -> e;",
    "Idle -> a :: ARPResponder(10.0.0.0/24 02:00:00:00:00:01) -> Discard; a [1] -> EtherMirror -> Discard;",
    // Copies meet again, and each is changed alone.
    "Idle -> t :: Tee; t [0] -> Strip(14) -> CheckIPHeader -> DecIPTTL -> j :: Counter; t [1] -> Paint(7) -> j;
     t [2] -> t2 :: Tee; t2 [0] -> EtherMirror -> j; t2 [1] -> Strip(14) -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02) -> j; j -> Discard;",
    // A copy of a copy comes back: the number of packets and of rounds are bounded.
    "Idle -> t :: Tee; t [0] -> Discard; t [1] -> Strip(1) -> t;",
    "Idle -> n :: Null -> Counter -> n;",
    "Idle -> Strip(14) -> CheckIPHeader -> m :: IPMirror -> DecIPTTL -> m;",
    // What expires is answered to the source, whose route may lead back.
    "Idle -> CheckIPHeader -> r :: StaticIPLookup(10.0.0.0/24 0, 10.0.1.0/24 10.0.0.2 1, 0/0 2);
     r [0] -> ttl :: DecIPTTL -> Discard; ttl [1] -> ICMPError(10.0.0.254, timeexceeded) -> r;
     r [1] -> DecIPTTL -> r2 :: Counter -> Discard; r [2] -> ICMPError(10.0.0.254, unreachable, net) -> r;",
    "Idle -> CheckIPHeader -> r :: RadixIPLookup(10.0.0.0/8 0, 0/0 0); r [0] -> ttl :: DecIPTTL -> r; ttl [1] -> ICMPError(10.0.0.254, timeexceeded) -> r;",
    "Idle -> CheckIPHeader(14) -> l :: ConnectionLimit(1, 5 s) -> Discard; l [1] -> r :: StaticIPLookup(0/0 0); r [0] -> Discard; Idle -> CheckIPHeader -> l;",
    // NAT of both sides, ARP and ICMP: the router of the examples.
    "routes :: StaticIPLookup(10.0.0.1 2, 192.0.2.1 2, 10.0.0.0/24 0, 0/0 1);
     nat :: IPRewriter(pattern 192.0.2.1 1024-1030 - - 0 1, drop, UDP_TIMEOUT 20, TCP_NODATA_TIMEOUT 10, CAPACITY 8);
     in_arp :: ARPQuerier(10.0.0.1, 02:00:00:00:01:01, TIMEOUT 60); out_arp :: ARPQuerier(192.0.2.1, 02:00:00:00:02:01, ENTRY_CAPACITY 3);
     Idle -> from_in :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
     from_in [0] -> ARPResponder(10.0.0.1 02:00:00:00:01:01) -> out :: Discard; from_in [1] -> [1] in_arp;
     from_in [2] -> Strip(14) -> CheckIPHeader -> mine :: IPClassifier(dst host 10.0.0.1 or dst host 192.0.2.1, -); from_in [3] -> Discard;
     mine [0] -> routes; mine [1] -> ttl :: DecIPTTL -> nat; ttl [1] -> ICMPError(10.0.0.1, timeexceeded, transit) -> routes;
     Idle -> from_out :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
     from_out [0] -> ARPResponder(192.0.2.1 02:00:00:00:02:01) -> out; from_out [1] -> [1] out_arp;
     from_out [2] -> Strip(14) -> CheckIPHeader -> answer :: IPClassifier(icmp, -); from_out [3] -> Discard;
     answer [0] -> routes; answer [1] -> [1] nat; nat [0] -> routes; nat [1] -> routes;
     routes [0] -> in_arp -> out; routes [1] -> out_arp -> out; routes [2] -> ICMPPingResponder -> routes;",
    // The output side of Click's standard router.
    "Idle -> CheckIPHeader -> Paint(1) -> r :: DirectIPLookup(10.0.0.0/24 0, 0/0 10.0.1.9 0);
     r [0] -> DropBroadcasts -> t :: PaintTee(1) -> o :: IPGWOptions(10.0.0.1) -> FixIPSrc(10.0.0.254) -> ttl :: DecIPTTL
     -> f :: IPFragmenter(100) -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02) -> Discard;
     t [1] -> ICMPError(10.0.0.1, redirect, host) -> r; o [1] -> ICMPError(10.0.0.1, parameterproblem) -> r;
     ttl [1] -> ICMPError(10.0.0.1, timeexceeded) -> r; f [1] -> ICMPError(10.0.0.1, unreachable, needfrag, PMTU 100) -> r;",
    "s :: EtherSwitch(TIMEOUT 30); Idle -> s -> Discard; Idle -> [1] s [1] -> Discard; Idle -> [2] s [2] -> Strip(14) -> CheckIPHeader -> DecIPTTL -> Discard;",
    "s :: EtherSwitch(CAPACITY 2); Idle -> s -> a :: Discard; Idle -> [1] s [1] -> a;",
    "s :: EtherSwitch(TIMEOUT 0); Idle -> s -> a :: Discard; Idle -> [1] s [1] -> a;",
    "Idle -> CheckIPHeader -> s :: FlowHashSwitch(true); s [0] -> SetIPDst(10.0.0.7) -> d :: DecIPTTL; s [1] -> StoreIPAddress(10.0.0.8, src) -> d; s [2] -> RandomSwitch -> d; d -> Discard;",
    "Idle -> s :: StrideSwitch(3, 1, 0); s [0] -> r :: RandomSwitch; s [1] -> r; s [2] -> Idle; r [0] -> Discard; r [1] -> Discard;",
    "Idle -> f :: WifiDupeFilter(TIMEOUT 20, DEBUG true) -> WifiDecap(STRICT true) -> Discard; Idle -> WifiDupeFilter(CAPACITY 1) -> WifiDecap -> Discard;",
    "IPRewriterPatterns(p 192.0.2.1 5000-5003 - -, q - - 10.0.0.2 80);
     Idle -> CheckIPHeader -> a :: IPRewriter(pattern p 0 1, pattern q 1 0); Idle -> CheckIPHeader -> [1] a;
     a [0] -> Discard; a [1] -> Discard;
     Idle -> CheckIPHeader -> b :: IPAddrRewriter(pattern 192.0.2.1-192.0.2.2 - 0 1, keep 1 0, TIMEOUT 20); Idle -> CheckIPHeader -> [1] b;
     b [0] -> Discard; b [1] -> Discard;",
    // Translation by endpoints: who may answer, ports that are forwarded, errors.
    "Idle -> CheckIPHeader -> rw :: IPEndpointRewriter(pattern 192.0.2.1 1024-1026# - - 0 1, drop, FILTERING address-and-port-dependent,
       PEER_CAPACITY 2, UDP_TIMEOUT 20, FORWARD 'udp 1025 10.0.0.2 53, tcp 80 10.0.0.1') -> Discard;
     Idle -> CheckIPHeader -> [1] rw [1] -> Discard; Idle -> CheckIPHeader -> ICMPRewriter(rw) -> Discard;",
    "Idle -> CheckIPHeader -> rw :: IPEndpointRewriter(pattern 192.0.2.1 - - - 0 0, pass 1, FILTERING address-dependent, MAPPING_CAPACITY 2,
       INBOUND_REFRESH false, REPLY_ANNO PAINT, TCP_NEW_TIMEOUT 5, FORWARD 'udp 53 10.0.0.1, tcp 80 10.0.0.2') -> Discard;
     Idle -> CheckIPHeader -> [1] rw [1] -> Discard;",
];
