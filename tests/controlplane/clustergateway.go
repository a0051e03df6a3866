package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const gatewayAPI = "/apis/cluster.core.oam.dev/v1alpha1"

// clusterGateway stands in for cluster-gateway's API server until it is killed. The hub's API server puts it
// behind an APIService: whoever may use `clustergateways/<name>/proxy` there is passed on with the gateway's
// own token of that spoke. To read the gateways themselves is an error here: nobody of ours should.
func clusterGateway(args []string) error {
	flags := flag.NewFlagSet("cluster-gateway", flag.ContinueOnError)
	listen := flags.String("listen", "", "host and port to serve on")
	cert := flags.String("cert", "", "file of the certificate to show")
	key := flags.String("key", "", "file of its key")
	clientCA := flags.String("client-ca", "", "file of the authority that signed the API server's own certificate as a client")
	spokes := map[string]*cluster{}
	flags.Func("cluster", "name=server,ca-file,token-file of one spoke; may be repeated", named(spokes))
	if err := flags.Parse(args); err != nil {
		return err
	}
	pem, err := os.ReadFile(*clientCA)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return fmt.Errorf("%s: no certificate", *clientCA)
	}
	server := &http.Server{
		Addr:      *listen,
		Handler:   gateways(spokes),
		TLSConfig: &tls.Config{ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert},
	}
	return server.ListenAndServeTLS(*cert, *key)
}

func gateways(spokes map[string]*cluster) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+gatewayAPI, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(metav1.APIResourceList{
			TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
			GroupVersion: "cluster.core.oam.dev/v1alpha1",
			APIResources: []metav1.APIResource{
				{Name: "clustergateways", SingularName: "clustergateway", Kind: "ClusterGateway", Verbs: []string{"get", "list"}},
				{Name: "clustergateways/proxy", Kind: "ClusterGatewayProxyOptions", Verbs: []string{"get", "create", "update", "patch", "delete"}},
			},
		})
	})
	for name, spoke := range spokes {
		prefix := gatewayAPI + "/clustergateways/" + name + "/proxy"
		next := http.StripPrefix(prefix, spoke.proxy())
		mux.HandleFunc(prefix+"/", func(w http.ResponseWriter, r *http.Request) {
			for header := range r.Header {
				if strings.HasPrefix(header, "X-Remote-") || strings.HasPrefix(header, "Impersonate-") {
					r.Header.Del(header)
				}
			}
			r.Header.Set("Authorization", "Bearer "+spoke.token)
			next.ServeHTTP(w, r)
		})
	}
	return mux
}
