// Command goclient is a plain client-go program: it loads a kubeconfig by the default rules,
// prints the name of each namespace, and then the events of a watch for the time given.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	watch := flag.Duration("watch", 0, "how long to watch namespaces after the list")
	name := flag.String("context", "", "the kubeconfig context, else the current one")
	flag.Parse()
	if err := run(*name, *watch); err != nil {
		fmt.Fprintln(os.Stderr, "goclient:", err)
		os.Exit(1)
	}
}

func run(name string, watch time.Duration) error {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(),
		&clientcmd.ConfigOverrides{CurrentContext: name},
	).ClientConfig()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	namespaces := client.CoreV1().Namespaces()
	list, err := namespaces.List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, namespace := range list.Items {
		fmt.Println(namespace.Name)
	}
	if watch <= 0 {
		return nil
	}

	ctx, cancel := context.WithTimeout(context.Background(), watch)
	defer cancel()
	events, err := namespaces.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return err
	}
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, open := <-events.ResultChan():
			if ctx.Err() != nil {
				return nil
			}
			if !open {
				return fmt.Errorf("the watch ended early")
			}
			if namespace, ok := event.Object.(*corev1.Namespace); ok {
				fmt.Println(event.Type, namespace.Name)
			} else {
				return fmt.Errorf("unexpected event %s: %v", event.Type, event.Object)
			}
		}
	}
}
