// A firewall from one network to another.
FromDevice(lan)
    -> kind :: Classifier(12/0800, -)
    -> Strip(14)
    -> check :: CheckIPHeader
    -> firewall :: IPFilter(allow tcp dst port 80, deny tcp dst port 80, allow udp dst port 5353, deny all)
    -> ttl :: DecIPTTL
    -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02)
    -> queue :: Queue
    -> ToDevice(wan);
kind [1] -> Discard;
firewall [1] -> Discard;
