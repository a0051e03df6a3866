// Command controlplane is a real kube-apiserver and a real etcd in one binary:
// `controlplane kube-apiserver FLAGS` and `controlplane etcd FLAGS`, each with the flags of the original.
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
		if err := etcd(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "etcd:", err)
			os.Exit(1)
		}
	default:
		usage()
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: controlplane kube-apiserver|etcd FLAGS")
	os.Exit(2)
}
