// Command controlplane is a real kube-apiserver, a real etcd and kwok as a kubelet in one binary:
// `controlplane kube-apiserver FLAGS`, `etcd FLAGS` and `kwok FLAGS`, each with the flags of the original.
// `controlplane user-server FLAGS` stands in for the user-server of OCM's cluster-proxy, `controlplane
// cluster-gateway FLAGS` for cluster-gateway's API server.
// With CONTROLPLANE_END_WITH_STDIN=1 it ends when its standard input does, as when the test that started it was killed.
package main

import (
	"fmt"
	"io"
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	if os.Getenv("CONTROLPLANE_END_WITH_STDIN") == "1" {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(1)
		}()
	}
	part := os.Args[1]
	os.Args = append([]string{part}, os.Args[2:]...)
	switch part {
	case "kube-apiserver":
		os.Exit(cli.Run(app.NewAPIServerCommand()))
	case "etcd":
		end(part, etcd(os.Args[1:]))
	case "kwok":
		end(part, kwok())
	case "user-server":
		end(part, userServer(os.Args[1:]))
	case "cluster-gateway":
		end(part, clusterGateway(os.Args[1:]))
	default:
		usage()
	}
}

func end(part string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", part, err)
		os.Exit(1)
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: controlplane kube-apiserver|etcd|kwok|user-server|cluster-gateway FLAGS")
	os.Exit(2)
}
