package main

import (
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
)

// userServer stands in for the user-server of OCM's cluster-proxy until it is killed: HTTPS, where
// `/<cluster>/…` is the API server of that cluster. What the real one sends through its agent goes
// straight to the spoke here.
func userServer(args []string) error {
	flags := flag.NewFlagSet("user-server", flag.ContinueOnError)
	listen := flags.String("listen", "", "host and port to serve on")
	cert := flags.String("cert", "", "file of the certificates to show")
	key := flags.String("key", "", "file of their key")
	clusters := map[string]http.Handler{}
	flags.Func("cluster", "name=server,ca-file of one spoke; may be repeated", func(value string) error {
		name, rest, _ := strings.Cut(value, "=")
		server, caFile, found := strings.Cut(rest, ",")
		if !found {
			return fmt.Errorf("want name=server,ca-file")
		}
		spoke, err := spoke(server, caFile)
		clusters[name] = spoke
		return err
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	server := &http.Server{Addr: *listen, Handler: route(clusters)}
	return server.ListenAndServeTLS(*cert, *key)
}

// route finds the cluster by the first element of the path and strips it.
func route(clusters map[string]http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		spoke, found := clusters[name]
		if !found {
			http.Error(w, fmt.Sprintf("no tunnel to cluster %q", name), http.StatusBadRequest)
			return
		}
		http.StripPrefix("/"+name, spoke).ServeHTTP(w, r)
	})
}

// spoke passes requests on to one API server: at once, upgrades too, and with no client certificate.
func spoke(server, caFile string) (http.Handler, error) {
	target, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: no certificate", caFile)
	}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
		},
		// HTTP/1.1 only: an upgrade cannot be passed on over HTTP/2.
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}},
		FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			log.Print(err)
			http.Error(w, fmt.Sprintf("proxy to anp-proxy-server failed because %v", err), http.StatusBadGateway)
		},
	}, nil
}
