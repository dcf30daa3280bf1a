// A firewall and source NAT between two networks:
//
//   client 10.0.1.2 --- lan [10.0.1.1  Weir  10.0.2.1] wan --- server 10.0.2.2
//
// Run it with `weir run examples/firewall-nat.click`. It answers ARP and ping for its addresses, lets clients open
// web and iperf3 connections to the other side, hides them behind 10.0.2.1, and tells them why other packets die.

define($LAN lan, $LAN_IP 10.0.1.1, $LAN_MAC 02:00:00:00:01:01,
       $WAN wan, $WAN_IP 10.0.2.1, $WAN_MAC 02:00:00:00:02:01);

// A network interface with its ARP: IP packets for this router or beyond leave on output 0; IP packets on the input
// are sent.
elementclass Interface {
    DEVICE $device, IP $ip, MAC $mac |
    FromDevice($device, PROMISC true)
        -> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
    out :: Queue(1000) -> ToDevice($device);
    arp :: ARPQuerier($ip, $mac);
    kind [0] -> ARPResponder($ip $mac) -> out;
    kind [1] -> [1] arp;
    kind [2] -> Strip(14) -> CheckIPHeader -> output;
    kind [3] -> Discard;
    input -> arp -> out;
}

lan :: Interface(DEVICE $LAN, IP $LAN_IP, MAC $LAN_MAC);
wan :: Interface(DEVICE $WAN, IP $WAN_IP, MAC $WAN_MAC);

// Where packets go: 0 lan, 1 wan, 2 this router.
routes :: StaticIPLookup($LAN_IP 2, $WAN_IP 2, 10.0.1.0/24 0, 0/0 1);
routes [0] -> lan;
routes [1] -> wan;
routes [2] -> ICMPPingResponder -> routes;

// From the clients: firewall, time to live, NAT.
firewall :: IPFilter(allow tcp dst port 80 or 5201, allow udp dst port 5201, 1 all);
nat :: IPRewriter(pattern $WAN_IP 1024-65535 - - 0 1, drop);
ttl :: DecIPTTL;

lan -> mine :: IPClassifier(dst host $LAN_IP or dst host $WAN_IP, -);
mine [0] -> routes;
mine [1] -> firewall -> ttl -> nat;
nat [0] -> routes;
// What the firewall refuses is answered.
firewall [1] -> ICMPError($LAN_IP, unreachable, filterprohibited) -> routes;
ttl [1] -> ICMPError($LAN_IP, timeexceeded, transit) -> routes;

// From the servers: back through the NAT, or to this router.
wan -> answer :: IPClassifier(icmp, -);
answer [0] -> routes;
answer [1] -> [1] nat;
nat [1] -> routes;
