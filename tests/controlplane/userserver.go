package main

import (
	"flag"
	"fmt"
	"net/http"
	"strings"
)

// userServer stands in for the user-server of OCM's cluster-proxy, and for the service-proxy at the spokes
// behind it, until it is killed: HTTPS, where `/<cluster>/…` is the API server of that cluster. What the real
// one sends through its agent goes straight to the spoke here.
func userServer(args []string) error {
	flags := flag.NewFlagSet("user-server", flag.ContinueOnError)
	listen := flags.String("listen", "", "host and port to serve on")
	cert := flags.String("cert", "", "file of the certificates to show")
	key := flags.String("key", "", "file of their key")
	var hub *cluster
	flags.Func("hub", "server,ca-file,token-file of the hub", func(value string) (err error) {
		hub, err = parseCluster(value)
		return err
	})
	spokes := map[string]*cluster{}
	flags.Func("cluster", "name=server,ca-file,token-file of one spoke; may be repeated", named(spokes))
	if err := flags.Parse(args); err != nil {
		return err
	}
	server := &http.Server{Addr: *listen, Handler: route(hub, spokes)}
	return server.ListenAndServeTLS(*cert, *key)
}

// route finds the cluster by the first element of the path and strips it.
func route(hub *cluster, spokes map[string]*cluster) http.Handler {
	handlers := map[string]http.Handler{}
	for name, spoke := range spokes {
		handlers[name] = http.StripPrefix("/"+name, introduce(hub, spoke, spoke.proxy()))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		handler, found := handlers[name]
		if !found {
			http.Error(w, fmt.Sprintf("no tunnel to cluster %q", name), http.StatusBadRequest)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// introduce lets a person of the hub be that person at the spoke, as the service-proxy there does: a token
// that the spoke knows goes on as it is, one that only the hub knows becomes an impersonation.
func introduce(hub, spoke *cluster, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !found || r.Header.Get("Impersonate-User") != "" {
			next.ServeHTTP(w, r)
			return
		}
		_, known, err := spoke.knows(r.Context(), token)
		if err == nil && !known {
			user, known, err := hub.knows(r.Context(), token)
			if err == nil && known {
				name := user.Username
				if strings.HasPrefix(name, "system:serviceaccount:") {
					name = "cluster:hub:" + name
				}
				r.Header.Set("Authorization", "Bearer "+spoke.token)
				r.Header.Set("Impersonate-User", name)
				for _, group := range user.Groups {
					r.Header.Add("Impersonate-Group", group)
				}
			}
		}
		next.ServeHTTP(w, r)
	})
}
