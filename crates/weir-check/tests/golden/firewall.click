// A firewall from one network to another.
FromDevice(lan)
    -> kind :: Classifier(12/0800, -)
    -> Strip(14)
    -> check :: CheckIPHeader
    -> firewall :: IPFilter(deny tcp dst port 22, allow tcp dst port 80, allow udp dst port 53, deny all)
    -> ttl :: DecIPTTL
    -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02)
    -> queue :: Queue
    -> ToDevice(wan);
kind [1] -> Discard;
firewall [1] -> Discard;

can lan wan via firewall tcp dst port 80
can lan wan tcp dst port 22
only lan wan tcp dst port 80
