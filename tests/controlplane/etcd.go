package main

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"go.etcd.io/etcd/server/v3/embed"
)

// etcd runs one member until a signal comes. Its flags are those of the real etcd that envtest uses.
func etcd(args []string) error {
	flags := flag.NewFlagSet("etcd", flag.ContinueOnError)
	dir := flags.String("data-dir", "", "where the data lives")
	client := flags.String("listen-client-urls", "", "the address for the API server")
	advertise := flags.String("advertise-client-urls", "", "the same address")
	peer := flags.String("listen-peer-urls", "", "the address for other members")
	unsafeNoFsync := flags.Bool("unsafe-no-fsync", false, "do not wait for the disk")
	if err := flags.Parse(args); err != nil {
		return err
	}

	config := embed.NewConfig()
	config.Dir = *dir
	config.UnsafeNoFsync = *unsafeNoFsync
	config.LogLevel = "error"
	for _, address := range []struct {
		raw  string
		into *[]url.URL
	}{
		{*client, &config.ListenClientUrls},
		{*advertise, &config.AdvertiseClientUrls},
		{*peer, &config.ListenPeerUrls},
		{*peer, &config.AdvertisePeerUrls},
	} {
		parsed, err := url.Parse(address.raw)
		if err != nil {
			return err
		}
		*address.into = []url.URL{*parsed}
	}
	config.InitialCluster = config.InitialClusterFromName(config.Name)

	server, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	defer server.Close()

	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	select {
	case <-signals:
		return nil
	case err := <-server.Err():
		return fmt.Errorf("stopped by itself: %w", err)
	}
}
