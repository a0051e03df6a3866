package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// cluster is an API server as a proxy on the hub knows it: with a token of the proxy's own.
type cluster struct {
	url       *url.URL
	token     string
	transport *http.Transport
	client    kubernetes.Interface
}

// parseCluster reads "server,ca-file,token-file".
func parseCluster(text string) (*cluster, error) {
	parts := strings.Split(text, ",")
	if len(parts) != 3 {
		return nil, fmt.Errorf("want server,ca-file,token-file")
	}
	target, err := url.Parse(parts[0])
	if err != nil {
		return nil, err
	}
	pem, err := os.ReadFile(parts[1])
	if err != nil {
		return nil, err
	}
	token, err := os.ReadFile(parts[2])
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: no certificate", parts[1])
	}
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host:            parts[0],
		BearerToken:     string(token),
		TLSClientConfig: rest.TLSClientConfig{CAData: pem},
	})
	if err != nil {
		return nil, err
	}
	// HTTP/1.1 only: an upgrade cannot be passed on over HTTP/2.
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	return &cluster{url: target, token: string(token), transport: transport, client: client}, nil
}

// named reads "name=server,ca-file,token-file" into a map, as a flag's value.
func named(clusters map[string]*cluster) func(string) error {
	return func(value string) error {
		name, rest, _ := strings.Cut(value, "=")
		found, err := parseCluster(rest)
		clusters[name] = found
		return err
	}
}

// knows asks the cluster whose token this is.
func (c *cluster) knows(ctx context.Context, token string) (authenticationv1.UserInfo, bool, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	review, err := c.client.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, false, err
	}
	return review.Status.User, review.Status.Authenticated, nil
}

// proxy passes requests on to the cluster: at once, upgrades too, and with no client certificate.
func (c *cluster) proxy() http.Handler {
	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(c.url) },
		Transport:     c.transport,
		FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			log.Print(err)
			http.Error(w, fmt.Sprintf("proxy to anp-proxy-server failed because %v", err), http.StatusBadGateway)
		},
	}
}
