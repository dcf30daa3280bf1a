routes :: StaticIPLookup($INSIDE_IP 2, $OUTSIDE_IP 2, $INSIDE_NET 0, $OUTSIDE_ROUTES);
nat :: IPEndpointRewriter(pattern $OUTSIDE_IP $PORTS - - 0 1, drop, UDP_TIMEOUT $UDP_TIMEOUT,
  FILTERING $FILTERING, FORWARD "$FORWARD");
errors :: ICMPRewriter(nat);
inside_arp :: ARPQuerier($INSIDE_IP, $INSIDE_MAC);
outside_arp :: ARPQuerier($OUTSIDE_IP, $OUTSIDE_MAC);

in_0 -> from_inside :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
from_inside [0] -> ARPResponder($INSIDE_IP $INSIDE_MAC) -> out_0;
from_inside [1] -> [1] inside_arp;
// Others than the hosts of the network are not answered, nor translated (RFC 2827), and nothing is sent to groups or to all.
from_inside [2] -> Strip(14) -> CheckIPHeader(BADSRC $INSIDE_IP $OUTSIDE_IP) -> IPClassifier(
    src net $INSIDE_NET and not dst net 224.0.0.0/3 and not dst net 127.0.0.0/8 and not dst net 0.0.0.0/8)
-> mine :: IPClassifier(dst host $INSIDE_IP or (dst host $OUTSIDE_IP and icmp type echo), -);
from_inside [3] -> Discard;
mine [0] -> routes;
mine [1] -> ttl :: DecIPTTL -> outward :: IPClassifier(icmp type 3 or icmp type 4 or icmp type 11 or icmp type 12, -);
// Packets with options get no answer: those may be source routes (RFC 7126), of which the answer would carry the reverse.
ttl [1] -> plain :: IPClassifier(ip hl 5, -) -> ICMPError($INSIDE_IP, timeexceeded, transit) -> routes;
plain [1] -> Discard;
// An error of an inside host speaks of a packet to the outside address, and comes from there itself (RFC 5508).
outward [0] -> ICMPRewriter(nat) -> StoreIPAddress($OUTSIDE_IP, src) -> routes;
outward [1] -> nat;

in_1 -> from_outside :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
from_outside [0] -> ARPResponder($OUTSIDE_IP $OUTSIDE_MAC) -> out_1;
from_outside [1] -> [1] outside_arp;
// Inside addresses do not come from the outside (RFC 2827), nor do addresses that no host has (RFC 1812, section 5.3.7).
from_outside [2] -> Strip(14) -> CheckIPHeader(BADSRC $INSIDE_IP $OUTSIDE_IP) -> inward :: IPClassifier(
  src net $INSIDE_NET or src net 224.0.0.0/3 or src net 127.0.0.0/8 or src net 0.0.0.0/8,
  dst host $OUTSIDE_IP and icmp type echo,
  dst host $OUTSIDE_IP and (icmp type 3 or icmp type 4 or icmp type 11 or icmp type 12),
  -);
from_outside [3] -> Discard;
inward [0] -> Discard;
inward [1] -> routes;
inward [2] -> DecIPTTL -> errors -> routes;
inward [3] -> in_ttl :: DecIPTTL -> [1] nat;
in_ttl [1] -> in_plain :: IPClassifier(ip hl 5, -) -> ICMPError($OUTSIDE_IP, timeexceeded, transit) -> routes;
in_plain [1] -> Discard;

nat [0] -> routes;
nat [1] -> routes;
routes [0] -> inside_arp -> out_0;
routes [1] -> fits :: IPFragmenter($OUTSIDE_MTU) -> outside_arp -> out_1;
// About a packet that is translated already: for its sender it speaks of the one that was sent.
fits [1] -> ICMPError($OUTSIDE_IP, unreachable, needfrag, PMTU $OUTSIDE_MTU) -> errors;
routes [2] -> own :: IPClassifier(icmp type echo, icmp type 3 or icmp type 4 or icmp type 11 or icmp type 12, -);
own [0] -> ICMPPingResponder -> routes;
// What an inside host sends to the outer endpoint of another goes back to the inside (hairpinning, RFC 4787), as do errors about it
// (RFC 5508).
own [1] -> errors;
own [2] -> [1] nat;
